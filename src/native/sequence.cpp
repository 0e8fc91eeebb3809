// Recording, submitting and waiting.
#include "sequence.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "errors.hpp"
#include "instance.hpp"

namespace vkdml {
namespace {
using Clock = std::chrono::steady_clock;
// Long enough to be rare, short enough that Ctrl-C seems immediate.
constexpr double block_slice_seconds = 0.05;
constexpr int polls_between_clock_reads = 8;
constexpr double settling_microseconds = 1000;
constexpr uint32_t most_timestamps = UINT32_MAX / 2; // each takes two queries
// No word of an index but of 2^32 - 1, of which the host learns when the device is done.
constexpr uint32_t unwritten = 0xffffffff;
} // namespace

// Marks the sequence as used by the calling thread for the length of one call.
class Sequence::Claim {
public:
    explicit Claim(Sequence& sequence) : sequence_(sequence) {
        while (!sequence.try_to_claim(User::owner))
            if (sequence.user_ == User::owner)
                throw DeviceError("another thread is using this sequence: give each thread its own");
    }
    ~Claim() { sequence_.user_ = User::nobody; }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

private:
    Sequence& sequence_;
};

Sequence::Sequence(std::shared_ptr<Device> device, uint32_t timestamps, bool owns_buffers)
    : device_(std::move(device)), owns_buffers_(owns_buffers), timestamp_room_(timestamps) {
    device_->require_usable();
    if (timestamps > most_timestamps)
        throw std::invalid_argument("a sequence times at most " + std::to_string(most_timestamps) +
                                    " operations, not " + std::to_string(timestamps));
    if (timestamps && !device_->info().timestamp_bits)
        throw DeviceError("the compute queue of " +
                          std::string(device_->info().properties.deviceName.data()) + " has no timestamps");
    const auto& info = device_->info();
    // Times are read after the fence: an event says nothing of queries.
    recording_ = std::make_unique<Recording>(device_->handle(), *info.compute_queue_family,
                                             Recording::Options{timestamps, info.update_after_bind,
                                                                info.ends_with_events && !timestamps,
                                                                info.texel_widths != 0});
}

bool Sequence::try_to_claim(User user) {
    User nobody = User::nobody;
    return user_.compare_exchange_strong(nobody, user);
}

Sequence::~Sequence() {
    device_->forget_answered(this);
    const bool finished = recording_->is_finished();
    if (finished) {
        device_->note_seen(recording_->number());
        recording_->take_held(); // freed here: nothing runs on it
    }
    if (!finished || !recording_->is_left(device_->seen())) device_->finish_later(std::move(recording_));
}

void Sequence::require_idle(const char* action) {
    if (recording_->pending)
        throw DeviceError(std::string("cannot ") + action +
                          " a sequence that is running: wait() for it first");
}

void Sequence::require_recordable() {
    require_idle("record into");
    if (state_ == State::ready) throw DeviceError("this sequence is complete: clear() it to record another");
}

bool Sequence::depends_on_earlier(const Operation::Uses& uses) const {
    for (const auto& [tensor, written] : since_barrier_)
        for (const auto& use : uses)
            if (use.tensor.get() == tensor && (use.written || written)) return true;
    return false;
}

void Sequence::append(std::shared_ptr<Operation> operation, const Operation::Uses& uses) {
    const auto commands = recording_->commands();
    const bool first = state_ == State::empty;
    if (first) {
        recording_->begin();
        state_ = State::recording;
        timestamps_ = 0;
        if (timestamp_room_) {
            commands.resetQueryPool(recording_->queries, 0, 2 * timestamp_room_);
        }
    }
    // Before the first operation a barrier orders it against earlier submissions.
    const bool barrier = first || depends_on_earlier(uses);
    if (barrier) {
        BarrierOperation(BarrierOperation::Before::commands).record(commands);
        since_barrier_.clear();
    }
    const bool timed = timestamps_ < 2 * timestamp_room_;
    auto stamp = [&](vk::PipelineStageFlagBits stage) {
        if (timed) commands.writeTimestamp(stage, recording_->queries, timestamps_++);
    };
    // What may overlap with the operation before it begins when it is begun, not when that one is done.
    stamp(barrier ? vk::PipelineStageFlagBits::eBottomOfPipe : vk::PipelineStageFlagBits::eTopOfPipe);
    operation->record(commands);
    recording_->operations.push_back(std::move(operation));
    stamp(vk::PipelineStageFlagBits::eBottomOfPipe);
    for (const auto& use : uses) {
        since_barrier_.emplace_back(use.tensor.get(), use.written);
        if (owns_buffers_)
            recording_->owned.push_back(use.tensor);
        else
            noted_.push_back({use.tensor->id(), use.tensor});
    }
}

void Sequence::copy(const Buffer& source, const Buffer& target, uint64_t bytes, uint64_t source_offset,
                    uint64_t target_offset) {
    Claim claim(*this);
    require_recordable();
    if (source.device() != device_ || target.device() != device_)
        throw DeviceError("a sequence copies between buffers of its own device only");
    auto inside = [&](const Buffer& buffer, uint64_t offset) {
        return offset <= buffer.capacity() && bytes <= buffer.capacity() - offset;
    };
    if (!bytes || !inside(source, source_offset) || !inside(target, target_offset))
        throw std::invalid_argument(
            "cannot copy " + std::to_string(bytes) + " bytes from offset " + std::to_string(source_offset) +
            " of " + std::to_string(source.capacity()) + " to offset " + std::to_string(target_offset) +
            " of " + std::to_string(target.capacity()));
    append(std::make_shared<CopyOperation>(source.tensor()->handle(), target.tensor()->handle(),
                                           vk::BufferCopy(source_offset, target_offset, bytes)),
           {{source.tensor(), false}, {target.tensor(), true}});
}

void Sequence::dispatch(std::shared_ptr<Kernel> kernel, const std::vector<Binding>& bindings,
                        std::vector<uint8_t> push, kp::Workgroup workgroups) {
    Claim claim(*this);
    require_recordable();
    if (kernel->device() != device_->handle()) throw DeviceError("the kernel belongs to another device");
    if (bindings.size() != kernel->bindings() || push.size() != kernel->push_bytes())
        throw std::invalid_argument("the kernel takes " + std::to_string(kernel->bindings()) +
                                    " buffers and " + std::to_string(kernel->push_bytes()) +
                                    " bytes of push constants, given are " + std::to_string(bindings.size()) +
                                    " and " + std::to_string(push.size()));
    const auto& limits = device_->info().properties.limits;
    for (int i = 0; i < 3; i++)
        if (!workgroups[i] || workgroups[i] > limits.maxComputeWorkGroupCount[i])
            throw std::invalid_argument("dimension " + std::to_string(i) + " takes 1 to " +
                                        std::to_string(limits.maxComputeWorkGroupCount[i]) +
                                        " workgroups on this device, not " + std::to_string(workgroups[i]));
    const auto infos = checked(bindings);
    Operation::Uses uses;
    for (const auto& binding : bindings) uses.push_back({binding.buffer->tensor(), binding.written});
    auto set = recording_->allocate_set(kernel->set_layout());
    append(std::make_shared<DispatchOperation>(std::move(kernel), infos, set, std::move(push), workgroups),
           uses);
}

std::vector<vk::DescriptorBufferInfo> Sequence::checked(const std::vector<Binding>& bindings) const {
    const auto& limits = device_->info().properties.limits;
    std::vector<vk::DescriptorBufferInfo> infos;
    for (const auto& [buffer, offset, written] : bindings) {
        if (buffer->device() != device_) throw DeviceError("a buffer belongs to another device");
        if (offset % limits.minStorageBufferOffsetAlignment || offset >= buffer->capacity())
            throw std::invalid_argument("a buffer of " + std::to_string(buffer->capacity()) +
                                        " bytes is bound from a multiple of " +
                                        std::to_string(limits.minStorageBufferOffsetAlignment) +
                                        " within it, not from " + std::to_string(offset));
        infos.emplace_back(buffer->tensor()->handle(), offset, buffer->capacity() - offset);
    }
    return infos;
}

void Sequence::rebind(const std::vector<std::vector<Binding>>& bindings) {
    Claim claim(*this);
    require_idle("rebind");
    device_->require_usable();
    if (owns_buffers_ || !device_->info().update_after_bind ||
        bindings.size() != recording_->operations.size())
        throw DeviceError("this sequence cannot be given other buffers: clear() it and record with others");
    noted_.clear();
    for (size_t i = 0; i < bindings.size(); i++) {
        const auto infos = checked(bindings[i]);
        static_cast<DispatchOperation&>(*recording_->operations[i]).rebind(infos);
        for (const auto& binding : bindings[i])
            noted_.push_back({binding.buffer->id(), binding.buffer->tensor()});
    }
}

void Sequence::clear() {
    Claim claim(*this);
    require_idle("clear");
    device_->require_usable();
    recording_->reset(device_->seen());
    watched_words_ = 0;
    noted_.clear();
    since_barrier_.clear();
    state_ = State::empty;
}

void Sequence::end_recording() {
    if (state_ == State::ready) return;
    if (state_ == State::empty) throw DeviceError("the sequence is empty: record an operation first");
    BarrierOperation(BarrierOperation::Before::host).record(recording_->commands());
    recording_->end();
    state_ = State::ready;
}

void Sequence::watch(const Buffer& result, uint32_t words) {
    Claim claim(*this);
    require_idle("watch");
    if (words > result.capacity() / sizeof(uint32_t))
        throw std::invalid_argument("cannot watch " + std::to_string(words) + " words of a buffer of " +
                                    std::to_string(result.capacity()) + " bytes");
    const bool can_be_seen = !recording_->fence_to_submit() && result.kind() == MemoryKind::host;
    watched_words_ = can_be_seen ? words : 0;
    watched_ = watched_words_ ? static_cast<volatile uint32_t*>(result.mapped()) : nullptr;
}

bool Sequence::is_answered() const {
    const auto is_unwritten = [](uint32_t word) { return word == unwritten; };
    return watched_words_ && std::none_of(watched_, watched_ + watched_words_, is_unwritten);
}

bool Sequence::settle(const std::function<bool()>& is_done) {
    if (!answered_) return true;
    Claim claim(*this);
    device_->require_usable(); // a child of fork() must not ask its parent's device
    if (!is_done()) return false;
    answered_ = false;
    device_->forget_answered(this);
    return true;
}

bool Sequence::settle_soon() {
    return settle([this] { return poll_for(settling_microseconds); });
}

void Sequence::settle_in_slices(const std::function<void()>& between_slices) {
    settle([&] { return wait_in_slices(-1, between_slices); });
}

bool Sequence::finish_answered(std::vector<std::shared_ptr<Tensor>>& held) {
    if (!try_to_claim(User::device)) return false; // whoever uses it sees to it
    const bool finished = recording_->is_finished();
    if (finished) {
        device_->note_seen(recording_->number());
        auto& in_flight = recording_->in_flight;
        held.insert(held.end(), std::make_move_iterator(in_flight.begin()),
                    std::make_move_iterator(in_flight.end()));
        in_flight.clear();
        answered_ = false;
    }
    user_ = User::nobody;
    return finished;
}

void Sequence::submit(const std::vector<const Buffer*>& holding) {
    Claim claim(*this);
    require_idle("submit");
    device_->require_usable();
    end_recording();
    hold_buffers(holding);
    for (uint32_t i = 0; i < watched_words_; i++) watched_[i] = unwritten;
    try {
        recording_->submitted(device_->submit(recording_->commands(), recording_->fence_to_submit()));
    } catch (...) {
        recording_->in_flight.clear();
        throw;
    }
}

void Sequence::hold_buffers(const std::vector<const Buffer*>& holding) {
    if (owns_buffers_) return;
    if (!holding.empty()) {
        for (const auto& noted : noted_)
            if (std::none_of(holding.begin(), holding.end(),
                             [&](const Buffer* buffer) { return buffer->id() == noted.id; }))
                throw DeviceError("a buffer that this sequence uses is not among those to be held");
        for (const Buffer* buffer : holding) recording_->in_flight.push_back(buffer->tensor());
        return;
    }
    for (const auto& noted : noted_) {
        recording_->in_flight.push_back(noted.tensor.lock());
        if (recording_->in_flight.back()) continue;
        recording_->in_flight.clear();
        throw DeviceError("a buffer that this sequence uses is gone: keep it, or clear() the sequence and "
                          "record with others");
    }
}

bool Sequence::spin(double microseconds) {
    Claim claim(*this);
    device_->require_usable();
    return poll_for(microseconds);
}

bool Sequence::poll_for(double microseconds) {
    const auto end = Clock::now() + std::chrono::duration<double, std::micro>(microseconds);
    try {
        do {
            for (int i = 0; i < polls_between_clock_reads; i++) {
                if (!answered_ && is_answered()) {
                    device_->note_answered(this);
                    return answered_ = true;
                }
                if (recording_->poll()) {
                    device_->note_seen(recording_->number());
                    return true;
                }
                // A software driver's workers need the core; elsewhere a system call costs latency.
                if (device_->info().is_software()) std::this_thread::yield();
            }
        } while (Clock::now() < end);
    } catch (const vk::DeviceLostError&) {
        device_->mark_lost();
        device_->require_usable();
    }
    return false;
}

bool Sequence::block(double seconds, const std::function<void()>& between_slices) {
    Claim claim(*this);
    device_->require_usable();
    return wait_in_slices(seconds, between_slices);
}

bool Sequence::wait_in_slices(double seconds, const std::function<void()>& between_slices) {
    const auto start = Clock::now();
    try {
        for (;;) {
            double left = block_slice_seconds;
            if (seconds >= 0)
                left = std::max(0.0, seconds - std::chrono::duration<double>(Clock::now() - start).count());
            if (recording_->wait(uint64_t(std::min(left, block_slice_seconds) * 1e9))) {
                device_->note_seen(recording_->number());
                return true;
            }
            between_slices();
            if (left <= 0) return false;
            if (recording_->fence_submitted) continue;
            // A lost device never sets its events; a fence tells of the loss.
            device_->submit(nullptr, recording_->fence);
            recording_->fence_submitted = true;
        }
    } catch (const vk::DeviceLostError&) {
        device_->mark_lost();
        device_->require_usable();
    }
    return false;
}

std::vector<double> Sequence::timings() {
    refuse_forked_child(); // of a device that was closed or lost they can be read
    Claim claim(*this);
    require_idle("read the timings of");
    if (state_ != State::ready || !timestamps_) return {};
    std::vector<uint64_t> ticks(timestamps_);
    auto result = recording_->device->getQueryPoolResults(recording_->queries, 0, timestamps_,
                                                          ticks.size() * sizeof ticks[0], ticks.data(),
                                                          sizeof ticks[0], vk::QueryResultFlagBits::e64);
    if (result != vk::Result::eSuccess) throw DeviceError("the sequence has not been evaluated yet");
    const auto& info = device_->info();
    uint64_t mask = info.timestamp_bits >= 64 ? ~0ull : (1ull << info.timestamp_bits) - 1;
    std::vector<double> nanoseconds;
    for (size_t i = 1; i < ticks.size(); i += 2)
        nanoseconds.push_back(double((ticks[i] - ticks[i - 1]) & mask) *
                              double(info.properties.limits.timestampPeriod));
    return nanoseconds;
}

} // namespace vkdml
