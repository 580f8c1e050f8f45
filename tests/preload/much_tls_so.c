/* SPDX-License-Identifier: MIT */
/* A library with a megabyte of thread-local storage, as some numerics have. */
extern __thread char much[1 << 20];
__thread char much[1 << 20];
