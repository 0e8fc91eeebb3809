// Waiting, between the end of Python and that of the process, for what threads and devices still do.
//
// A driver's compiler makes statics while it first compiles. Those are destroyed before what was registered
// earlier by std::atexit() runs, so the waiting must be done before exit() is called at all. Python's own
// exit handlers (the module atexit) come too early: they and __del__ may still compute, in any thread.
#include "process_end.hpp"

#include <chrono>
#include <pthread.h>
#include <thread>

#include "checked_dispatch.hpp"
#include "gil.hpp"

namespace vkdml {
namespace {

// Python has ended: no thread can take the GIL any more, so no work begins.
void wait_for_work() {
    using namespace std::chrono_literals;
    while (threads_without_gil > 0) std::this_thread::sleep_for(1ms);
    wait_for_live_devices();
}

} // namespace

void wait_at_the_end_of_python() {
    // A forked child has none of its parent's other threads, and the one that forked had the GIL.
    pthread_atfork(nullptr, nullptr, [] { threads_without_gil = 0; });
    Py_AtExit(wait_for_work); // fails where 32 others are registered: then wait_for_live_devices() is left
}

} // namespace vkdml
