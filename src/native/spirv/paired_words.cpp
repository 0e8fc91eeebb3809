// Rewriting modules: vectors of words in buffers become integers of 64 bits.
#include "paired_words.hpp"

#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

bool is_word(const Instruction& each) { return each.operation() == type_int && each[2] == 32 && !each[3]; }

class Pairing {
public:
    explicit Pairing(const std::vector<uint32_t>& spirv) : old_(instructions_of(spirv)), made_(spirv) {
        find_arrays();
        for (const Instruction& each : old_) find_use(each);
        std::set<uint32_t> used;
        for (const auto& [pointer, place] : places_)
            if (!place.word) used.insert(place.array);
        for (auto each = arrays_.begin(); each != arrays_.end();)
            each = used.count(each->first) ? std::next(each) : arrays_.erase(each);
        if (arrays_.empty()) return;
        made_.resize(header_words);
        pair_ = new_id(), two_pairs_ = new_id(), pointer_ = new_id(), pointer_to_two_ = new_id();
        write(made_, capability, {int64});
        for (const Instruction& each : old_) rewrite(each);
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    // A vector in a buffer that a pointer leads to, or a word of it.
    struct Place {
        uint32_t array;
        uint32_t word; // the id of its number; 0: the whole vector
    };

    uint32_t new_id() { return made_[bound_word]++; }
    void find_arrays();
    void find_use(const Instruction& each);
    void leave(uint32_t pointer);
    void rewrite(const Instruction& old);
    void define_types();
    void load_pairs(const Instruction& old, const Place& place);
    void store_pairs(const Instruction& old, const Place& place);
    const Place* paired(uint32_t pointer) const;
    bool is_short(uint32_t array) const { return vectors_.at(arrays_.at(array)) == 2; }
    uint32_t wide_type(uint32_t array) const { return is_short(array) ? pair_ : two_pairs_; }

    const std::vector<Instruction> old_;
    std::vector<uint32_t> made_;
    std::map<uint32_t, uint32_t> vectors_;   // their words, by type
    std::map<uint32_t, uint32_t> arrays_;    // types of their elements, by type
    std::map<uint32_t, uint32_t> variables_; // types of the arrays that they have
    std::map<uint32_t, Place> places_;       // by pointer
    uint32_t pair_ = 0, two_pairs_ = 0, pointer_ = 0, pointer_to_two_ = 0; // types
};

void Pairing::find_arrays() {
    for (const Instruction& each : old_)
        if (each.operation() == type_int && each[2] == 64) return;
    for (const auto& [variable, buffer] : buffer_variables(old_).all) {
        if (buffer.words < 2) continue;
        vectors_[buffer.element] = buffer.words;
        arrays_[buffer.array] = buffer.element;
        variables_[variable] = buffer.array;
    }
}

void Pairing::find_use(const Instruction& each) {
    switch (each.operation()) {
    case access_chain: {
        const auto found = variables_.find(each[3]);
        if (found == variables_.end())
            leave(each[3]);
        else if (each.count == 6 || each.count == 7)
            places_[each[2]] = {found->second, each.count == 7 ? each[6] : 0};
        else
            arrays_.erase(found->second);
        return;
    }
    case store:
        if (const Place* place = paired(each[1]); place && place->word) leave(each[1]);
        return;
    default:
        if (passes_pointers_on(each))
            for (uint32_t word = 1; word < each.count; word++) leave(each[word]);
    }
}

// Whatever else is done with a pointer, its array stays as it is.
void Pairing::leave(uint32_t pointer) {
    if (const Place* place = paired(pointer)) arrays_.erase(place->array);
}

const Pairing::Place* Pairing::paired(uint32_t pointer) const {
    const auto found = places_.find(pointer);
    return found != places_.end() && arrays_.count(found->second.array) ? &found->second : nullptr;
}

void Pairing::rewrite(const Instruction& old) {
    switch (old.operation()) {
    case type_int:
        write(made_, old);
        if (is_word(old)) define_types();
        return;
    case type_runtime_array:
        if (!arrays_.count(old[1])) break;
        write(made_, type_runtime_array, {old[1], wide_type(old[1])});
        return;
    case access_chain:
        if (const Place* place = paired(old[2])) {
            const uint32_t type = is_short(place->array) ? pointer_ : pointer_to_two_;
            write(made_, access_chain, {type, old[2], old[3], old[4], old[5]});
            return;
        }
        break;
    case load:
        if (const Place* place = paired(old[3])) return load_pairs(old, *place);
        break;
    case store:
        if (const Place* place = paired(old[1])) return store_pairs(old, *place);
        break;
    }
    write(made_, old);
}

void Pairing::define_types() {
    write(made_, type_int, {pair_, 64, 0});
    write(made_, type_vector, {two_pairs_, pair_, 2});
    write(made_, type_pointer, {pointer_, storage_buffer, pair_});
    write(made_, type_pointer, {pointer_to_two_, storage_buffer, two_pairs_});
}

void Pairing::load_pairs(const Instruction& old, const Place& place) {
    const uint32_t pairs = new_id();
    std::vector<uint32_t> operands{wide_type(place.array), pairs};
    operands.insert(operands.end(), old.words + 3, old.words + old.count);
    write(made_, load, operands);
    if (!place.word) {
        write(made_, bitcast, {old[1], old[2], pairs});
        return;
    }
    const uint32_t words = new_id();
    write(made_, bitcast, {arrays_.at(place.array), words, pairs});
    write(made_, vector_extract_dynamic, {old[1], old[2], words, place.word});
}

void Pairing::store_pairs(const Instruction& old, const Place& place) {
    const uint32_t pairs = new_id();
    write(made_, bitcast, {wide_type(place.array), pairs, old[2]});
    std::vector<uint32_t> operands{old[1], pairs};
    operands.insert(operands.end(), old.words + 3, old.words + old.count);
    write(made_, store, operands);
}

} // namespace

std::vector<uint32_t> with_paired_words(const std::vector<uint32_t>& spirv) { return Pairing(spirv).take(); }

} // namespace vkdml::spirv
