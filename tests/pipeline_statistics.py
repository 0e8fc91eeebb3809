"""What a driver says of a pipeline that it compiled, by VK_KHR_pipeline_executable_properties."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from vulkan_calls import call, checked, create, create_instance, first_physical_device, structure, vulkan

EXTENSION = "VK_KHR_pipeline_executable_properties"
_SUBGROUP_SIZE_CONTROL = "VK_EXT_subgroup_size_control"
_CAPTURE_STATISTICS = 0x40
_REQUIRE_FULL_SUBGROUPS = 0x2
_COMPUTE = 0x20
_STORAGE_BUFFER = 7


class _Properties(ctypes.Structure):
    """VkPipelineExecutablePropertiesKHR."""

    _fields_ = (
        ("structure_type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("stages", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("description", ctypes.c_char * 256),
        ("subgroup_size", ctypes.c_uint32),
    )


class _Statistic(ctypes.Structure):
    """VkPipelineExecutableStatisticKHR."""

    _fields_ = (
        ("structure_type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char * 256),
        ("description", ctypes.c_char * 256),
        ("format", ctypes.c_int),
        ("value", ctypes.c_uint64),
    )


# VkPipelineExecutableStatisticFormatKHR: bool, int64, uint64, float64.
_FORMATS = ("Q", "q", "Q", "d")


@dataclass(frozen=True)
class Compiled:
    """One pipeline as the driver compiled it."""

    subgroup_size: int
    statistics: dict[str, int | float]
    """By the driver's names."""


class Compiler:
    """The first device that the loader lists, open for compiling and for nothing else."""

    def __init__(self) -> None:
        self._physical = first_physical_device(create_instance())
        priority = structure("f", 1.0)
        queues = structure("iPIIIP", 2, 0, 0, 0, 1, priority.value)
        # Their features: pipelineExecutableInfo; subgroupSizeControl and computeFullSubgroups.
        statistics = structure("iPI", 1000269000, 0, 1)
        wanted, chain = [EXTENSION], statistics
        if _SUBGROUP_SIZE_CONTROL in self._extensions():
            wanted.append(_SUBGROUP_SIZE_CONTROL)
            chain = structure("iPII", 1000225002, statistics.value, 1, 1)
        names = (ctypes.c_char_p * len(wanted))(*(name.encode() for name in wanted))
        info = structure(
            "iPIIPIPIPP", 3, chain.value, 0, 1, queues.value, 0, 0, len(wanted), ctypes.addressof(names), 0
        )
        self._device = create("vkCreateDevice", self._physical, info, None)

    def _extensions(self) -> set[str]:
        count = ctypes.c_uint32()
        function = vulkan.vkEnumerateDeviceExtensionProperties
        checked("extensions", function(self._physical, None, ctypes.byref(count), None))
        # VkExtensionProperties: a name of 256 bytes and a version.
        content = ctypes.create_string_buffer(260 * count.value)
        checked("extensions", function(self._physical, None, ctypes.byref(count), content))
        starts = range(0, 260 * count.value, 260)
        return {content.raw[start : start + 256].partition(b"\0")[0].decode() for start in starts}

    def _of_device(self, name: str) -> ctypes._NamedFuncPointer:
        get = vulkan.vkGetDeviceProcAddr
        get.restype = ctypes.c_void_p
        address = get(self._device, name.encode())
        if not address:
            raise RuntimeError(f"the driver lacks {name}: it does not offer {EXTENSION}")
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)
        return kind(address)

    def compile(
        self, spirv: bytes, bindings: int, push_bytes: int, constants: Sequence[int], subgroup_size: int = 0
    ) -> Compiled:
        """Build a pipeline as the runtime does, and ask what came of it.

        Args:
            spirv: the module.
            bindings: storage buffers in set 0.
            push_bytes: bytes of push constants.
            constants: specialization constants, by slot.
            subgroup_size: all subgroups are full and have it, if it is not 0.

        Raises:
            RuntimeError: the driver refused; the message has its VkResult.
        """
        device = self._device
        slots = structure(
            "".join("IiIIP" for _ in range(bindings)),
            *(field for i in range(bindings) for field in (i, _STORAGE_BUFFER, 1, _COMPUTE, 0)),
        )
        set_layout = create(
            "vkCreateDescriptorSetLayout", device, structure("iPIIP", 32, 0, 0, bindings, slots.value), None
        )
        ranges = structure("III", _COMPUTE, 0, push_bytes)
        sets = structure("Q", set_layout.value)
        layout_info = structure("iPIIPIP", 30, 0, 0, 1, sets.value, 1, ranges.value)
        layout = create("vkCreatePipelineLayout", device, layout_info, None)
        words = ctypes.create_string_buffer(spirv, len(spirv))
        module_info = structure("iPINP", 16, 0, 0, len(spirv), ctypes.addressof(words))
        module = create("vkCreateShaderModule", device, module_info, None)
        entries = structure(
            "IIN" * len(constants), *(f for i in range(len(constants)) for f in (i, 4 * i, 4))
        )
        values = structure("I" * len(constants), *constants)
        specialization = structure("IPNP", len(constants), entries.value, 4 * len(constants), values.value)
        name = ctypes.create_string_buffer(b"main")
        required = structure("iPI", 1000225001, 0, subgroup_size) if subgroup_size else None
        flags = _REQUIRE_FULL_SUBGROUPS if subgroup_size else 0
        info = structure(
            # VkComputePipelineCreateInfo, with its VkPipelineShaderStageCreateInfo in the middle.
            "iPI4xiPIIPPP0PPPi",
            *(29, 0, _CAPTURE_STATISTICS),
            *(18, required and required.value, flags, _COMPUTE, module.value, ctypes.addressof(name)),
            *(specialization.value, layout.value, 0, 0),
        )
        pipeline = ctypes.c_uint64()
        try:
            call(
                "vkCreateComputePipelines", device, ctypes.c_uint64(0), 1, info, None, ctypes.byref(pipeline)
            )
            return self._read(pipeline)
        finally:
            vulkan.vkDestroyPipeline(device, pipeline, None)
            vulkan.vkDestroyShaderModule(device, module, None)
            vulkan.vkDestroyPipelineLayout(device, layout, None)
            vulkan.vkDestroyDescriptorSetLayout(device, set_layout, None)

    def _read(self, pipeline: ctypes.c_uint64) -> Compiled:
        count = ctypes.c_uint32(1)
        properties = _Properties(structure_type=1000269002)
        self._get(
            "vkGetPipelineExecutablePropertiesKHR",
            structure("iPQ", 1000269001, 0, pipeline.value),
            count,
            properties,
        )
        which = structure("iPQI", 1000269003, 0, pipeline.value, 0)
        self._get("vkGetPipelineExecutableStatisticsKHR", which, count, None)
        found = (_Statistic * count.value)(
            *(_Statistic(structure_type=1000269004) for _ in range(count.value))
        )
        self._get("vkGetPipelineExecutableStatisticsKHR", which, count, found)
        return Compiled(
            properties.subgroup_size,
            {
                statistic.name.decode(): struct.unpack(
                    f"={_FORMATS[statistic.format]}", struct.pack("=Q", statistic.value)
                )[0]
                for statistic in found
            },
        )

    def _get(self, name: str, which: ctypes.c_void_p, count: ctypes.c_uint32, into: object) -> None:
        target = None if into is None else ctypes.addressof(into)  # type: ignore[arg-type]
        checked(name, self._of_device(name)(self._device.value, which, ctypes.addressof(count), target))
