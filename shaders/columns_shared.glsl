// Loops over parts and their columns are unrolled: NVIDIA's compiler keeps in memory what other loops go through.
//
// Shared memory for the parts of half a workgroup, or of as many invocations as the including file says. The words of a part
// lie apart, so that neighbouring invocations use neighbouring words.
#ifndef SHARED_STEP
#define SHARED_STEP (WORKGROUP / 2u)
#endif
shared uint shared_parts[SHARED_STEP * uint(PARTS) * PART_WORDS];

// Returns the first word of part `i` in a slot; there are SHARED_STEP slots.
uint part_word(uint i, uint slot) { return i * PART_WORDS * SHARED_STEP + slot; }
