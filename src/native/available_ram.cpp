// Reads /proc/meminfo and the control groups (version 2), of which a container's limit is one.
#include "available_ram.hpp"

#include <algorithm>
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

// Where the process is among the control groups, such as "/user.slice/user-0.slice".
std::string own_group(const std::string& root) {
    const auto file = opened(root + "/proc/self/cgroup");
    const std::string version_2 = "0::";
    char line[4096];
    while (file && fgets(line, sizeof line, file.get()))
        if (strncmp(line, version_2.c_str(), version_2.size()) == 0) {
            const std::string group = line + version_2.size();
            return group.substr(0, group.find_last_not_of('\n') + 1);
        }
    return "/";
}

// What a group has left; nothing if it has no limit. The kernel takes pages of files back.
std::optional<uint64_t> left_in_group(const std::string& folder) {
    const auto limit = number_after(folder + "/memory.max", "");
    if (!limit) return std::nullopt; // most groups have none: nothing more is read
    const auto used = number_after(folder + "/memory.current", "");
    if (!used) return std::nullopt;
    uint64_t of_files = 0;
    for (const char* pages : {"inactive_file ", "active_file "})
        of_files += number_after(folder + "/memory.stat", pages).value_or(0);
    const uint64_t taken = *used - std::min(*used, of_files);
    return *limit - std::min(*limit, taken);
}

} // namespace

uint64_t available_ram(const std::string& root) {
    const auto kib = number_after(root + "/proc/meminfo", "MemAvailable:");
    uint64_t available = kib ? *kib * 1024 : ~0ull;
    // A group's limit holds for the groups in it too. The topmost one has no files of a limit, but in a
    // container the process may see its own group as the topmost.
    for (std::string group = own_group(root);;) {
        if (group == "/") group.clear();
        const auto left = left_in_group(root + "/sys/fs/cgroup" + group);
        if (left) available = std::min(available, *left);
        if (group.empty()) return available;
        const size_t parent = group.find_last_of('/');
        group.resize(parent == std::string::npos ? 0 : parent);
    }
}

} // namespace vkdml
