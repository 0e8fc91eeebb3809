// Giving up and taking the GIL in threads that the interpreter's end may leave behind.
//
// A daemon thread that asks for the GIL while the interpreter ends does not get it: until Python 3.14 it is
// ended by pthread_exit(), whose unwinding aborts the process where it meets a destructor. It sleeps here
// instead until the process is gone, as Python itself does it from 3.14 on.
//
// Threads at work without the GIL are counted. Once Python has ended none can join them, and the process
// waits for those that are left before it ends (process_end.hpp).
#pragma once

#include <atomic>

#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vkdml {

[[noreturn]] inline void sleep_until_the_process_ends() {
    for (;;) pause();
}

inline std::atomic<int> threads_without_gil{0};

template <class Take> void take_gil_or_sleep(Take take) noexcept {
    threads_without_gil--;
    // The thread that ends the interpreter still has it.
    if (!Py_IsInitialized() && syscall(SYS_gettid) != getpid()) sleep_until_the_process_ends();
    try {
        take();
    } catch (...) { // the unwinding of pthread_exit(); nothing else is thrown, and it must not go on
        sleep_until_the_process_ends();
    }
}

// The GIL is given up for the length of a scope.
class WithoutGil {
public:
    WithoutGil() {
        threads_without_gil++; // before the interpreter can end
        state_ = PyEval_SaveThread();
    }
    ~WithoutGil() {
        take_gil_or_sleep([this] { PyEval_RestoreThread(state_); });
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    PyThreadState* state_;
};

// The GIL is held for the length of a scope within one of WithoutGil.
class WithGil {
public:
    WithGil() {
        take_gil_or_sleep([this] { state_ = PyGILState_Ensure(); });
    }
    ~WithGil() {
        threads_without_gil++;
        PyGILState_Release(state_);
    }
    WithGil(const WithGil&) = delete;
    WithGil& operator=(const WithGil&) = delete;

private:
    PyGILState_STATE state_;
};

// Gives up a reference to an object, in a thread that may have the GIL or not. After Python has ended its
// objects are not touched.
inline void drop_reference(PyObject* object) {
    if (!Py_IsInitialized()) return;
    threads_without_gil++; // as this thread may be one
    {
        WithGil acquire;
        Py_DECREF(object);
    }
    threads_without_gil--;
}

} // namespace vkdml
