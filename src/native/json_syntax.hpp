// Whether a text is JSON: tells a damaged driver manifest, which the Vulkan loader does not name, from the
// others.
#pragma once

#include <cctype>
#include <cstring>
#include <string_view>

namespace vkdml {

class JsonSyntax {
public:
    static bool holds(std::string_view text) {
        JsonSyntax syntax(text);
        return syntax.value(0) && syntax.next() == '\0';
    }

private:
    // Deeper nesting is refused, so that no file exhausts the stack.
    static constexpr int most_depth = 100;

    explicit JsonSyntax(std::string_view text) : rest_(text) {}

    // The next character that is no white space; '\0' at the end.
    char next() {
        while (!rest_.empty() && std::strchr(" \t\r\n", rest_[0]) && rest_[0]) rest_.remove_prefix(1);
        return rest_.empty() ? '\0' : rest_[0];
    }

    bool take(char wanted) {
        if (next() != wanted) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool value(int depth) {
        if (depth > most_depth) return false;
        switch (next()) {
        case '{':
            return items('}', depth, true);
        case '[':
            return items(']', depth, false);
        case '"':
            return string();
        default:
            return word();
        }
    }

    bool items(char end, int depth, bool named) {
        rest_.remove_prefix(1);
        if (take(end)) return true;
        do {
            if (named && !(next() == '"' && string() && take(':'))) return false;
            if (!value(depth + 1)) return false;
        } while (take(','));
        return take(end);
    }

    bool string() {
        for (size_t at = 1; at < rest_.size(); at++) {
            if (rest_[at] == '\\') {
                at++;
            } else if (rest_[at] == '"') {
                rest_.remove_prefix(at + 1);
                return true;
            }
        }
        return false;
    }

    // A number, true, false or null.
    bool word() {
        size_t length = 0;
        while (length < rest_.size() && (std::isalnum((unsigned char)rest_[length]) ||
                                         (rest_[length] && std::strchr("+-.", rest_[length]))))
            length++;
        std::string_view said = rest_.substr(0, length);
        rest_.remove_prefix(length);
        if (said == "true" || said == "false" || said == "null") return true;
        return !said.empty() && (said[0] == '-' || std::isdigit((unsigned char)said[0]));
    }

    std::string_view rest_;
};

} // namespace vkdml
