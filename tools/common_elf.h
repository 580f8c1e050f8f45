/* SPDX-License-Identifier: MIT */
/*
 * Can a program be preloaded?  What its ELF image says (elf(5)).
 *
 * Pure: the image is a buffer, of any content and any length; nothing outside
 * of it is read, whatever its headers claim.
 */
#ifndef DLK_TOOLS_COMMON_ELF_H
#define DLK_TOOLS_COMMON_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_facts {
	bool is_elf;            /* magic and header are there */
	bool damaged;           /* its headers point outside of the file */
	bool go;                /* the Go toolchain's marks */
	uint8_t class, data;    /* EI_CLASS, EI_DATA */
	uint16_t type, machine; /* e_type, e_machine */
	char interp[256];       /* PT_INTERP; "" for none */
};

void elf_inspect(const void *image, size_t size, struct elf_facts *facts);

/*
 * Why the dynamic linker would not load `shim` into `program`, or would to no
 * effect; NULL if it works.
 */
const char *elf_refusal(const struct elf_facts *program,
			const struct elf_facts *shim);

/*
 * common_both.c: of a file; false: it cannot be read, or is none.  And its bytes,
 * for munmap(2): 0, and none of an empty file, or -errno.
 */
bool tool_inspect(const char *file, struct elf_facts *facts);
int tool_map(const char *file, void **image, size_t *size);

/*
 * The library of this class (EI_CLASS) that a dynamic linker, or the system's if
 * that is "", finds where LD_PRELOAD is DLK_BOTH_LIBRARIES; false: none.  It is
 * asked, so it is one that the caller would run.
 */
#define DLK_BOTH_LIBRARIES DLK_PREFIX "/$LIB/dlock/libdlock-preload.so"
bool tool_library_of(const char *loader, uint8_t class,
		     struct elf_facts *facts);

#endif
