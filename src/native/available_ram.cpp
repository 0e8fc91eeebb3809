// Reads /proc/meminfo and the control groups, of which a container's limit is one.
#include "available_ram.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

namespace vkdml {
namespace {

struct Close {
    void operator()(FILE* file) const { fclose(file); }
};

std::unique_ptr<FILE, Close> opened(const std::string& path) {
    return std::unique_ptr<FILE, Close>(fopen(path.c_str(), "re"));
}

// The number that a line has after these words; with none, the number that the first line begins with.
std::optional<uint64_t> number_after(const std::string& path, const std::string& words) {
    const auto file = opened(path);
    char line[256];
    while (file && fgets(line, sizeof line, file.get())) {
        uint64_t number;
        const bool begins = strncmp(line, words.c_str(), words.size()) == 0;
        if (begins && sscanf(line + words.size(), "%" SCNu64, &number) == 1) return number;
        if (words.empty()) break;
    }
    return std::nullopt;
}

// The control groups of one version: where they are, and what their files are called.
struct Hierarchy {
    const char* controller; // in /proc/self/cgroup; version 2 has one hierarchy for all, without a name
    const char* folder;
    const char *limit, *used;
    const char* pages_of_files[2]; // lines of memory.stat
};

constexpr std::array<Hierarchy, 2> hierarchies = {{
    {"", "/sys/fs/cgroup", "/memory.max", "/memory.current", {"inactive_file ", "active_file "}},
    {"memory",
     "/sys/fs/cgroup/memory",
     "/memory.limit_in_bytes",
     "/memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
}};
// Version 1 tells of no limit by a number of about this size.
const uint64_t no_limit = 1ull << 62;

// Where the process is among the control groups, such as "/user.slice/user-0.slice", in each hierarchy. A
// line of the file has a number, controllers separated by commas, and the group: "4:cpu,memory:/docker/1f3a".
std::array<std::string, hierarchies.size()> own_groups(const std::string& root) {
    std::array<std::string, hierarchies.size()> groups;
    const auto file = opened(root + "/proc/self/cgroup");
    char line[4096];
    while (file && fgets(line, sizeof line, file.get())) {
        const char* controllers = strchr(line, ':');
        const char* group = controllers ? strchr(controllers + 1, ':') : nullptr;
        if (!group) continue;
        const std::string listed = "," + std::string(controllers + 1, group) + ",", path = group + 1;
        for (size_t i = 0; i < hierarchies.size(); i++)
            if (listed.find(std::string(",") + hierarchies[i].controller + ",") != std::string::npos)
                groups[i] = path.substr(0, path.find_last_not_of('\n') + 1);
    }
    return groups;
}

// What a group has left; nothing if it has no limit. The kernel takes pages of files back.
std::optional<uint64_t> left_in_group(const std::string& folder, const Hierarchy& hierarchy) {
    const auto limit = number_after(folder + hierarchy.limit, "");
    if (!limit || *limit >= no_limit) return std::nullopt; // most groups have none: nothing more is read
    const auto used = number_after(folder + hierarchy.used, "");
    if (!used) return std::nullopt;
    uint64_t of_files = 0;
    for (const char* pages : hierarchy.pages_of_files)
        of_files += number_after(folder + "/memory.stat", pages).value_or(0);
    const uint64_t taken = *used - std::min(*used, of_files);
    return *limit - std::min(*limit, taken);
}

// The least that is left in a group and in all around it.
uint64_t left_in_groups(const std::string& root, const Hierarchy& hierarchy, std::string group) {
    uint64_t least = ~0ull;
    // A group's limit holds for the groups in it too. The topmost one has no files of a limit, but in a
    // container the process may see its own group as the topmost.
    for (;;) {
        if (group == "/") group.clear();
        const auto left = left_in_group(root + hierarchy.folder + group, hierarchy);
        if (left) least = std::min(least, *left);
        if (group.empty()) return least;
        const size_t parent = group.find_last_of('/');
        group.resize(parent == std::string::npos ? 0 : parent);
    }
}

} // namespace

uint64_t available_ram(const std::string& root) {
    const auto kib = number_after(root + "/proc/meminfo", "MemAvailable:");
    uint64_t available = kib ? *kib * 1024 : ~0ull;
    const auto groups = own_groups(root);
    for (size_t i = 0; i < hierarchies.size(); i++)
        available = std::min(available, left_in_groups(root, hierarchies[i], groups[i]));
    return available;
}

} // namespace vkdml
