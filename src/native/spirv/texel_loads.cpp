// Rewriting modules: what they load of a storage buffer becomes texels.
#include "texel_loads.hpp"

#include <map>
#include <optional>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

constexpr uint32_t version_word = 1, newest_version = 0x00010300;
constexpr uint32_t input_binding = 0, texel_set = 0;

class Texels {
public:
    Texels(const std::vector<uint32_t>& spirv, uint32_t bindings, uint32_t widths)
        : old_(instructions_of(spirv)), widths_(widths) {
        made_.module = spirv;
        if (spirv[version_word] > newest_version) return;
        find_arrays();
        for (const Instruction& each : old_) find_use(each);
        if (!only_loads_ || places_.empty()) return;
        for (const auto& [pointer, place] : places_) images_[variables_.at(place.variable)] = {};
        made_.module.resize(header_words);
        write(made_.module, capability, {image_buffer});
        if (images_.count(2)) write(made_.module, capability, {storage_image_extended_formats});
        uint32_t binding = bindings;
        for (auto& [words, image] : images_) {
            image = {new_id(), new_id(), new_id(), binding++};
            made_.texel_words.push_back(words);
        }
        if (!four_) four_ = new_id(), defines_four_ = true;
        for (const Instruction& each : old_) rewrite(each);
    }

    TexelLoads take() { return std::move(made_); }

private:
    // An element of an array that a pointer leads to, or a word of it.
    struct Place {
        uint32_t variable;
        uint32_t index; // the id of its number
        uint32_t word;  // the same of the word's; 0: the whole element
    };
    struct Image {
        uint32_t type, pointer, variable, binding;
    };

    uint32_t new_id() { return made_.module[bound_word]++; }
    void find_arrays();
    void find_use(const Instruction& each);
    void rewrite(const Instruction& old);
    void declare();
    void define();
    void load_texel(const Instruction& old, const Place& place);
    std::optional<uint32_t> input_of(uint32_t pointer) const;

    const std::vector<Instruction> old_;
    const uint32_t widths_;
    TexelLoads made_;
    uint32_t word_ = 0, four_ = 0; // types
    bool defines_four_ = false, is_declared_ = false, only_loads_ = true;
    std::map<uint32_t, uint32_t> variables_; // words of an element, by variable
    std::map<uint32_t, Place> places_;       // by pointer
    std::map<uint32_t, uint32_t> pointers_;  // variables of the input, by pointers to anything in them
    std::map<uint32_t, Image> images_;       // by words
};

void Texels::find_arrays() {
    const BufferVariables found = buffer_variables(old_);
    word_ = found.word, four_ = found.four;
    for (const auto& [variable, buffer] : found.all)
        if (buffer.binding == input_binding) variables_[variable] = buffer.words;
}

// The variable of the input that a pointer leads into.
std::optional<uint32_t> Texels::input_of(uint32_t pointer) const {
    if (variables_.count(pointer)) return pointer;
    const auto found = pointers_.find(pointer);
    return found == pointers_.end() ? std::nullopt : std::optional(found->second);
}

void Texels::find_use(const Instruction& each) {
    const uint32_t operation = each.operation();
    if (operation == access_chain) {
        const auto input = input_of(each[3]);
        if (!input) return;
        pointers_[each[2]] = *input;
        const uint32_t words = variables_.at(*input);
        if (each[3] == *input && (words & widths_) && (each.count == 6 || each.count == 7))
            places_[each[2]] = {*input, each[5], each.count == 7 ? each[6] : 0};
    } else if (operation == store) {
        if (input_of(each[1])) only_loads_ = false;
    } else if (passes_pointers_on(each)) {
        for (uint32_t word = 1; word < each.count; word++)
            if (input_of(each[word])) only_loads_ = false;
    }
}

void Texels::rewrite(const Instruction& old) {
    const uint32_t operation = old.operation();
    if (!is_declared_ && operation >= first_type && operation <= last_type) {
        declare();
        is_declared_ = true;
    }
    if (operation == access_chain && places_.count(old[2])) return;
    if (operation == load && places_.count(old[3])) return load_texel(old, places_.at(old[3]));
    write(made_.module, old);
    if (operation == type_int && old[1] == word_) define();
}

void Texels::declare() {
    for (const auto& [words, image] : images_) {
        write(made_.module, decorate, {image.variable, descriptor_set_decoration, texel_set});
        write(made_.module, decorate, {image.variable, binding_decoration, image.binding});
        write(made_.module, decorate, {image.variable, non_writable});
    }
}

void Texels::define() {
    if (defines_four_) write(made_.module, type_vector, {four_, word_, 4});
    for (const auto& [words, image] : images_) {
        const uint32_t format = words == 1 ? r32ui : words == 2 ? rg32ui : rgba32ui;
        constexpr uint32_t no_depth = 0, not_arrayed = 0, one_sample = 0, without_sampler = 2;
        write(made_.module, type_image,
              {image.type, word_, buffer_dimension, no_depth, not_arrayed, one_sample, without_sampler,
               format});
        write(made_.module, type_pointer, {image.pointer, uniform_constant, image.type});
        write(made_.module, variable, {image.pointer, image.variable, uniform_constant});
    }
}

void Texels::load_texel(const Instruction& old, const Place& place) {
    const uint32_t words = variables_.at(place.variable), type = old[1], result = old[2];
    const Image& image = images_.at(words);
    const uint32_t loaded = new_id(), texel = words == 4 && !place.word ? result : new_id();
    write(made_.module, load, {image.type, loaded, image.variable});
    write(made_.module, image_read, {four_, texel, loaded, place.index});
    if (place.word)
        write(made_.module, vector_extract_dynamic, {type, result, texel, place.word});
    else if (words == 1)
        write(made_.module, composite_extract, {type, result, texel, 0});
    else if (words == 2)
        write(made_.module, vector_shuffle, {type, result, texel, texel, 0, 1});
}

} // namespace

TexelLoads with_texel_loads(const std::vector<uint32_t>& spirv, uint32_t bindings, uint32_t widths) {
    return Texels(spirv, bindings, widths).take();
}

} // namespace vkdml::spirv
