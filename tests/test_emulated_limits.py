"""Devices with lower limits than the driver's give the same bits; what is shown is what all of vkdml sees.

`python tests/emulated_limits.py` makes more calls, on more devices.
"""

from __future__ import annotations

import math
from dataclasses import replace

import emulated_limits
import numpy as np
import oracle
import processes
import pytest
import strategies
import twins
from checking import assert_same

from vkdml.plan.device_classes import TUNING
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce.argreduce import plan_argreduce

CALLS = 22


@pytest.mark.parametrize("name", emulated_limits.QUICK)
def test_results_have_the_same_bits_and_limits_are_kept(name):
    emulated = emulated_limits.BY_NAME[name]
    shown, made = emulated_limits.run_on(emulated, quick=True)
    assert made == CALLS
    assert shown == {
        "type": "discrete" if emulated.device_type == emulated_limits.DISCRETE else "integrated",
        "unified_memory": emulated.device_type == emulated_limits.INTEGRATED,
        "storage_range": emulated.storage_range,
        "shared_memory": emulated.shared_memory,
        "invocations": emulated.invocations,
        "workgroups": emulated.workgroups,
        "subgroup_size": emulated.subgroup_size,
        "alignment": emulated.alignment,
        "timestamps": emulated.timestamps,
    }


def test_the_page_lists_the_devices():
    page = emulated_limits.ROOT / "docs" / "other-gpus.md"
    assert emulated_limits.table() in page.read_text()


def test_the_devices_of_continuous_integration_cover_all_that_can_be_shown():
    quick = [emulated_limits.BY_NAME[name] for name in emulated_limits.QUICK]
    for field in ("device_type", "shared_memory", "subgroup_size", "timestamps", "memory"):
        covered = {getattr(emulated, field) for emulated in quick}
        assert covered == {getattr(emulated, field) for emulated in emulated_limits.DEVICES}, field


# ---- the layer itself --------------------------------------------------------------------------------------

OPEN_A_DEVICE = """
import ctypes
from vulkan_calls import call, create, create_instance, first_physical_device, structure, vulkan
physical = first_physical_device(create_instance())
priority = structure("f", 1.0)
queues = structure("iPIIIP", 2, 0, 0, 0, 1, priority.value)
wanted = structure("iPIIPIPIPP", 3, 0, 0, 1, queues.value, 0, 0, 0, 0, 0)
device = create("vkCreateDevice", physical, wanted, None)

def mapped(memory):
    seen = ctypes.c_void_p()
    call("vkMapMemory", device, memory, ctypes.c_uint64(0), ctypes.c_uint64(4096), 0, ctypes.byref(seen))
    return (ctypes.c_ubyte * 4096).from_address(seen.value)

def allocated(memory_type):
    return create("vkAllocateMemory", device, structure("iPQI", 5, 0, 4096, memory_type), None)
"""


def ended(script: str, **changes: object) -> tuple[int, str]:
    """Exit code and error output of a script on the least device, or one like it, without other layers."""
    environment = replace(emulated_limits.BY_NAME["least"], **changes).environment()
    done = processes.finished(
        OPEN_A_DEVICE + script, **environment | {"VK_INSTANCE_LAYERS": emulated_limits.LAYER}
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("mapped(allocated(0))", "memory that the host does not see was mapped"),
        ("allocated(3)", "memory of type 3 of 3"),
        (
            'create("vkAllocateMemory", device, structure("iPQI", 5, 0, 2 << 30, 0), None)',
            "an allocation of 2147483648 bytes",
        ),
    ],
)
def test_what_breaks_a_limit_ends_the_process(script, fault):
    code, output = ended(script)
    assert (code, output) == (emulated_limits.NOT_KEPT, f"emulated limits: {fault}\n")


def test_memory_that_is_not_coherent_is_seen_only_after_it_is_brought_in_line():
    code, output = ended(
        """
memory = allocated(0)
ranges = structure("iPQQQ", 6, 0, memory.value, 0, (1 << 64) - 1)
seen = mapped(memory)
seen[0] = 7
call("vkFlushMappedMemoryRanges", device, 1, ranges)
seen[0] = 8  # never flushed
vulkan.vkUnmapMemory(device, memory)
seen = mapped(memory)
assert seen[0] == 0xC5, seen[0]
call("vkInvalidateMappedMemoryRanges", device, 1, ranges)
assert seen[0] == 7, seen[0]
""",
        memory="not coherent",
    )
    assert (code, output) == (0, "")


def test_memory_that_is_coherent_is_seen_at_once():
    code, output = ended(
        "memory = allocated(1)\nmapped(memory)[0] = 7\nvulkan.vkUnmapMemory(device, memory)\n"
        "assert mapped(memory)[0] == 7\n",
        memory="not coherent",
    )
    assert (code, output) == (0, "")


# ---- subgroups that no software driver has -----------------------------------------------------------------


@pytest.mark.parametrize("subgroup_size", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("invocations", [128, 384, 1024])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_plans_keep_to_subgroups_of_any_size_and_cover_all_elements(subgroup_size, invocations, dtype):
    """By the kernels' twins, which divide the work as the plan says and leave out the shuffles."""
    limits = DeviceLimits(
        TUNING["integrated"], 128 << 20, 65535, invocations, 16 << 10, subgroup_size=subgroup_size
    )
    rng = np.random.Generator(np.random.PCG64(subgroup_size))
    for shape in ((3, 1000), (1, 40_000), (600, 133)):
        x = strategies.elements(rng, np.dtype(dtype), math.prod(shape), "specials").reshape(shape)
        layout = canonical_reduce(shape, row_major_strides(shape), (1,), (1, 1), take_last=False)
        plan = plan_argreduce(layout, Order(dtype), x.size, limits, index_bytes=4, with_values=False)
        (step,) = plan.steps
        assert "subgroups" in step.kernel
        assert step.subgroup_size == subgroup_size
        assert step.constants[0] % subgroup_size == 0
        assert step.constants[0] <= invocations
        buffers = {role: np.zeros(nbytes, np.uint8) for role, nbytes in plan.buffer_bytes if nbytes}
        buffers["input"][: x.nbytes] = x.view(np.uint8).reshape(-1)
        twins.run(step, buffers)
        assert_same(
            buffers["indices"].view(np.uint32), oracle.argreduce(x, 1, dtype="uint32")[0], f"{dtype} {shape}"
        )


def test_workgroups_of_more_subgroups_than_may_be_asked_for_do_without():
    """lavapipe allows 32: with subgroups of 4 a workgroup of 256 would break Vulkan's rules."""
    layout = canonical_reduce((3, 1000), (1000, 1), (1,), (1, 1), take_last=False)

    def kernel(most: int) -> str:
        limits = DeviceLimits(
            TUNING["discrete"], 128 << 20, 65535, 1024, 32 << 10, subgroup_size=4, max_subgroups=most
        )
        (step,) = plan_argreduce(
            layout, Order("float32"), 3000, limits, index_bytes=4, with_values=False
        ).steps
        assert step.constants[0] == 256
        return step.kernel

    assert "subgroups" in kernel(64)
    assert "subgroups" not in kernel(63)
