// Reads /proc/meminfo and the control groups (version 2), of which a container's limit is one.
#include "available_ram.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

namespace vkdml {
namespace {

// The number after a word at the start of a line; the first number of the file if there is no word.
std::optional<uint64_t> number_after(const std::string& path, const std::string& word) {
    std::ifstream file(path);
    std::string found;
    for (uint64_t number; word.empty() || file >> found;) {
        if (found == word) return file >> number ? std::optional(number) : std::nullopt;
        file.ignore(1 << 16, '\n');
    }
    return std::nullopt;
}

// Where the process is among the control groups, such as "/user.slice/user-0.slice".
std::string own_group(const std::string& root) {
    std::ifstream file(root + "/proc/self/cgroup");
    const std::string version_2 = "0::";
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, version_2.size(), version_2) == 0) return line.substr(version_2.size());
    return "/";
}

// What a group has left; nothing if it has no limit. The kernel takes pages of files back.
std::optional<uint64_t> left_in_group(const std::string& folder) {
    const auto limit = number_after(folder + "/memory.max", "");
    const auto used = number_after(folder + "/memory.current", "");
    if (!limit || !used) return std::nullopt;
    uint64_t of_files = 0;
    for (const char* pages : {"inactive_file", "active_file"})
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
        group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
    }
}

} // namespace vkdml
