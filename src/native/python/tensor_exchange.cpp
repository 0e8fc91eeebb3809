// DLPack's structures, as its header dlpack.h defines them, and the capsules that carry them.
#include "tensor_exchange.hpp"

#include <stdexcept>
#include <string>

#include "gil.hpp"

namespace nb = nanobind;

namespace vkdml {
namespace {

struct DLTensor {
    void* data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct Unversioned {
    static constexpr const char* name = "dltensor";
    DLTensor tensor;
    void* manager;
    void (*deleter)(Unversioned*);
};

struct Versioned {
    static constexpr const char* name = "dltensor_versioned";
    uint32_t major, minor;
    void* manager;
    void (*deleter)(Versioned*);
    uint64_t flags;
    DLTensor tensor;
};

// What a capsule points into: DLPack's structure, whose manager this is, and what it needs.
template <class Managed> struct Lent {
    Managed managed{};
    LentTensor described;
    PyObject* owner;
};

template <class Managed> void delete_lent(Managed* managed) {
    auto* lent = static_cast<Lent<Managed>*>(managed->manager);
    drop_reference(lent->owner); // consumers call this from threads of their own, too
    delete lent;
}

template <class Managed> void delete_unused(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, Managed::name)) return; // a consumer took it, and renamed it
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::name));
    managed->deleter(managed);
}

template <class Managed> nb::object capsule_of(LentTensor described, const nb::object& owner) {
    auto* lent = new Lent<Managed>{{}, std::move(described), owner.ptr()};
    LentTensor& from = lent->described;
    Managed& managed = lent->managed;
    managed.tensor = {reinterpret_cast<void*>(from.address),
                      from.device.first,
                      from.device.second,
                      int32_t(from.shape.size()),
                      from.code,
                      from.bits,
                      1,
                      from.shape.data(),
                      from.strides.data(),
                      0};
    managed.manager = lent;
    managed.deleter = delete_lent<Managed>;
    if constexpr (std::is_same_v<Managed, Versioned>) {
        managed.major = 1;
        managed.flags = from.flags;
    }
    PyObject* capsule = PyCapsule_New(&managed, Managed::name, delete_unused<Managed>);
    if (!capsule) {
        delete lent;
        throw nb::python_error();
    }
    owner.inc_ref();
    return nb::steal(capsule);
}

} // namespace

nb::object dlpack_capsule(LentTensor tensor, nb::object owner, bool versioned) {
    if (tensor.strides.size() != tensor.shape.size())
        throw std::invalid_argument("a tensor has one stride for each of its " +
                                    std::to_string(tensor.shape.size()) + " dimensions, not " +
                                    std::to_string(tensor.strides.size()));
    return versioned ? capsule_of<Versioned>(std::move(tensor), owner)
                     : capsule_of<Unversioned>(std::move(tensor), owner);
}

} // namespace vkdml
