// What the process waits for before it ends: drivers crash when their statics go while they are at work.
#pragma once

namespace vkdml {

// Registers the waiting, once in a process; called with the GIL.
void wait_at_the_end_of_python();

} // namespace vkdml
