// Lets one allocation of this program fail, as it does when memory is out.
#pragma once

namespace ebbtide::metrics::test {

// The `number`th `operator new` of the calling thread from now on throws std::bad_alloc, once.
void failAllocation(int number) noexcept;

// Of any thread: has it?
bool hasFailed() noexcept;

// None of the calling thread fails any more. True if one has failed.
bool endFailing() noexcept;

}  // namespace ebbtide::metrics::test
