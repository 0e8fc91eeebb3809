// Rewriting modules: shifts, and divisions by powers of two, become other operations.
#include "vector_arithmetic.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

constexpr uint32_t word_bits = 32;
// A float's exponent begins at this bit. Words of which so many of the lowest bits are 0 are floats, too.
constexpr uint32_t exponent_bit = 23, least_exact_shift = 7;

uint32_t bits_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

// Which power of two a word is.
std::optional<uint32_t> power_of_two(uint32_t word) {
    if (!word || (word & (word - 1))) return std::nullopt;
    uint32_t power = 0;
    while (word >> power != 1) power++;
    return power;
}

class Arithmetic {
public:
    explicit Arithmetic(const std::vector<uint32_t>& spirv) {
        const std::vector<Instruction> old = instructions_of(spirv);
        made_.assign(spirv.begin(), spirv.begin() + header_words);
        size_t next = 0;
        for (; next < old.size() && old[next].operation() != function; next++) {
            find_type(old[next]);
            find_known(old[next]);
            write(made_, old[next]);
        }
        for (; next < old.size(); next++) {
            find_known(old[next]);
            if (!ints_.count(old[next].count > 1 ? old[next][1] : 0) || !rewrite(old[next]))
                write(body_, old[next]);
        }
        made_.insert(made_.end(), body_.begin(), body_.end());
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    struct Int {
        uint32_t components, component; // how many, and their type
    };

    uint32_t new_id() { return made_[bound_word]++; }
    void find_type(const Instruction& each);
    void find_known(const Instruction& each);
    std::optional<uint32_t> known(uint32_t id) const;
    bool rewrite(const Instruction& old);
    void shift_right(const Instruction& old, uint32_t bits, bool keeps_sign);
    void shift_left(const Instruction& old);
    uint32_t constant_of(uint32_t type, uint32_t word);
    uint32_t float_constant_of(uint32_t components, float number);
    uint32_t constant_of(uint32_t components, uint32_t component, uint32_t type, uint32_t word);
    uint32_t float_type(uint32_t components);
    uint32_t made(Operation operation, uint32_t type, const std::vector<uint32_t>& operands);

    std::map<uint32_t, Int> ints_;        // types of words and of vectors of words
    std::map<uint32_t, uint32_t> floats_; // types of floats, by components
    std::map<uint32_t, uint32_t> known_;  // words, by id; a vector's, if all are the same
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> constants_; // new ones, by type and word
    std::vector<uint32_t> made_, body_;
};

void Arithmetic::find_type(const Instruction& each) {
    if (each.operation() == type_int && each[2] == word_bits) ints_[each[1]] = {1, each[1]};
    if (each.operation() == type_float && each[2] == word_bits) floats_[1] = each[1];
    if (each.operation() != type_vector) return;
    if (ints_.count(each[2])) ints_[each[1]] = {each[3], each[2]};
    if (floats_.count(1) && floats_[1] == each[2]) floats_[each[3]] = each[1];
}

void Arithmetic::find_known(const Instruction& each) {
    switch (each.operation()) {
    case constant:
        if (ints_.count(each[1])) known_[each[2]] = each[3];
        return;
    case constant_composite:
    case composite_construct:
    case copy_object: {
        const auto first = known(each[3]);
        for (uint32_t word = 4; first && word < each.count; word++)
            if (known(each[word]) != first) return;
        if (first && ints_.count(each[1])) known_[each[2]] = *first;
        return;
    }
    }
}

std::optional<uint32_t> Arithmetic::known(uint32_t id) const {
    const auto found = known_.find(id);
    return found != known_.end() ? std::optional(found->second) : std::nullopt;
}

// Writes what takes the place of an instruction; false: nothing does.
bool Arithmetic::rewrite(const Instruction& old) {
    const uint32_t operation = old.operation();
    if (operation == spirv::shift_left) {
        shift_left(old);
        return true;
    }
    if (operation == shift_right_logical || operation == shift_right_arithmetic) {
        const uint32_t bits = known(old[4]).value_or(0);
        if (bits < least_exact_shift || bits >= word_bits) return false;
        shift_right(old, bits, operation == shift_right_arithmetic);
        return true;
    }
    if (operation != unsigned_divide && operation != unsigned_modulo) return false;
    const auto power = power_of_two(known(old[4]).value_or(0));
    if (!power) return false;
    if (operation == unsigned_modulo)
        write(body_, bitwise_and, {old[1], old[2], old[3], constant_of(old[1], *known(old[4]) - 1)});
    else if (*power < least_exact_shift)
        write(body_, shift_right_logical, {old[1], old[2], old[3], constant_of(old[1], *power)});
    else
        shift_right(old, *power, false);
    return true;
}

// What is left of a word is exact as a float.
void Arithmetic::shift_right(const Instruction& old, uint32_t bits, bool keeps_sign) {
    const uint32_t type = old[1], components = ints_.at(type).components, floats = float_type(components);
    const uint32_t whole = made(bitwise_and, type, {old[3], constant_of(type, ~0u << bits)});
    const uint32_t number = made(convert_signed_to_float, floats, {whole});
    const float factor = 1.0f / float(1u << bits);
    const uint32_t less = made(float_multiply, floats, {number, float_constant_of(components, factor)});
    if (keeps_sign) {
        write(body_, convert_float_to_signed, {type, old[2], less});
        return;
    }
    const uint32_t extended = made(convert_float_to_signed, type, {less});
    write(body_, bitwise_and, {type, old[2], extended, constant_of(type, ~0u >> bits)});
}

// Multiplies by a power of two. Where the shift is not known, that is a float, whose exponent is the shift.
// It is negative: of the powers of two up to 2^31 all negative ones are signed words.
void Arithmetic::shift_left(const Instruction& old) {
    const uint32_t type = old[1];
    if (const auto bits = known(old[4])) {
        write(body_, integer_multiply,
              {type, old[2], old[3], constant_of(type, *bits < word_bits ? 1u << *bits : 0)});
        return;
    }
    const uint32_t exponent = made(integer_multiply, type, {old[4], constant_of(type, 1u << exponent_bit)});
    const uint32_t bits = made(integer_add, type, {exponent, constant_of(type, bits_of(-1.0f))});
    const uint32_t number = made(bitcast, float_type(ints_.at(type).components), {bits});
    const uint32_t power = made(convert_float_to_signed, type, {number});
    if (const auto word = known(old[3])) {
        write(body_, integer_multiply, {type, old[2], power, constant_of(type, 0 - *word)});
        return;
    }
    write(body_, signed_negate, {type, old[2], made(integer_multiply, type, {old[3], power})});
}

uint32_t Arithmetic::made(Operation operation, uint32_t type, const std::vector<uint32_t>& operands) {
    const uint32_t id = new_id();
    std::vector<uint32_t> all{type, id};
    all.insert(all.end(), operands.begin(), operands.end());
    write(body_, operation, all);
    return id;
}

uint32_t Arithmetic::constant_of(uint32_t type, uint32_t word) {
    const Int& integer = ints_.at(type);
    return constant_of(integer.components, integer.component, type, word);
}

uint32_t Arithmetic::float_constant_of(uint32_t components, float number) {
    return constant_of(components, float_type(1), float_type(components), bits_of(number));
}

uint32_t Arithmetic::constant_of(uint32_t components, uint32_t component, uint32_t type, uint32_t word) {
    if (const auto found = constants_.find({type, word}); found != constants_.end()) return found->second;
    uint32_t id;
    if (components == 1) {
        id = new_id();
        write(made_, constant, {type, id, word});
    } else {
        const uint32_t part = constant_of(1, component, component, word);
        id = new_id();
        std::vector<uint32_t> operands{type, id};
        operands.insert(operands.end(), components, part);
        write(made_, constant_composite, operands);
    }
    return constants_[{type, word}] = id;
}

uint32_t Arithmetic::float_type(uint32_t components) {
    if (const auto found = floats_.find(components); found != floats_.end()) return found->second;
    if (components == 1) {
        floats_[1] = new_id();
        write(made_, type_float, {floats_[1], word_bits});
    } else {
        const uint32_t component = float_type(1);
        floats_[components] = new_id();
        write(made_, type_vector, {floats_[components], component, components});
    }
    return floats_[components];
}

} // namespace

std::vector<uint32_t> with_vector_arithmetic(const std::vector<uint32_t>& spirv) {
    return Arithmetic(spirv).take();
}

} // namespace vkdml::spirv
