/* SPDX-License-Identifier: MIT */
/* The control: a bug behind four bytes, one after the other.  It is found. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	must(!(n > 3 && bytes[0] == 'l' && bytes[1] == 'o' && bytes[2] == 's' &&
	       bytes[3] == 't'));
	return 0;
}
