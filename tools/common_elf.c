/* SPDX-License-Identifier: MIT */
/*
 * Reading ELF headers out of a buffer; see common_elf.h.
 *
 *  1. Every read MUST be checked against the buffer: offsets come from a file.
 *  2. Both classes and both byte orders are read, for the message should name
 *     what a program is, not only that it is odd.
 *
 * Go: its runtime locks by raw system calls and never passes through libc.
 * The linker leaves the sections .note.go.buildid and .go.buildinfo, and a
 * note of the name "Go" which strip(1) keeps (cmd/link, "elf.go"); where the
 * system's linker had the last word, it stands among others in one PT_NOTE.
 */
#include "tools/common_elf.h"

#include <elf.h>
#include <string.h>

struct image {
	const unsigned char *bytes;
	size_t size;
	bool wide, big; /* 64 bits; most significant byte first */
	bool damaged;
};

struct segment {
	uint64_t type, offset, size, align;
};

static bool inside(const struct image *im, uint64_t at, uint64_t len)
{
	return at <= im->size && len <= im->size - at;
}

/* An unsigned number of 2, 4 or 8 bytes; 0 and `damaged` outside. */
static uint64_t number(struct image *im, uint64_t at, unsigned len)
{
	uint64_t n = 0;

	if (!inside(im, at, len)) {
		im->damaged = true;
		return 0;
	}
	for (unsigned i = 0; i < len; i++)
		n = n << 8 | im->bytes[at + (im->big ? i : len - 1 - i)];
	return n;
}

/* A field that is 8 bytes in ELF64 and 4 in ELF32. */
static uint64_t word(struct image *im, uint64_t at64, uint64_t at32)
{
	return im->wide ? number(im, at64, 8) : number(im, at32, 4);
}

static bool magic(const unsigned char *b, size_t size, struct elf_facts *f)
{
	if (size < sizeof(Elf32_Ehdr) || memcmp(b, ELFMAG, SELFMAG))
		return false;
	f->class = b[EI_CLASS];
	f->data = b[EI_DATA];
	return (f->class == ELFCLASS32 || f->class == ELFCLASS64) &&
	       (f->data == ELFDATA2LSB || f->data == ELFDATA2MSB);
}

/* The i-th program header. */
static bool segment(struct image *im, uint64_t i, struct segment *s)
{
	uint64_t base = word(im, offsetof(Elf64_Ehdr, e_phoff),
			     offsetof(Elf32_Ehdr, e_phoff));
	uint64_t step = number(im, im->wide ? 54 : 42, 2);
	uint64_t at = base + i * step;

	if (base > im->size || step < (im->wide ? 56 : 32))
		im->damaged = true;
	if (im->damaged)
		return false;
	s->type = number(im, at, 4);
	s->offset = word(im, at + 8, at + 4);
	s->size = word(im, at + 32, at + 16);
	s->align = word(im, at + 48, at + 28);
	return !im->damaged;
}

static void interpreter(struct image *im, const struct segment *s,
			struct elf_facts *f)
{
	if (!inside(im, s->offset, s->size) || s->size >= sizeof(f->interp)) {
		im->damaged = true;
		return;
	}
	memcpy(f->interp, im->bytes + s->offset, s->size);
	f->interp[s->size] = '\0';
}

/* A note: three words of 4 bytes, then name and contents, each padded. */
static bool note_of_go(struct image *im, const struct segment *s)
{
	const uint64_t pad = s->align == 8 ? 7 : 3;
	uint64_t at = s->offset, end = s->offset + s->size;

	if (!inside(im, s->offset, s->size))
		im->damaged = true;
	while (!im->damaged && end - at >= 16) {
		uint64_t name = number(im, at, 4);
		uint64_t next = (12 + name + pad) & ~pad;

		if (name == 4 && !memcmp(im->bytes + at + 12, "Go\0", 4))
			return true;
		next += (number(im, at + 4, 4) + pad) & ~pad;
		if (next > end - at)
			return false;
		at += next;
	}
	return false;
}

static void segments(struct image *im, struct elf_facts *f)
{
	uint64_t n = number(im, im->wide ? 56 : 44, 2);
	struct segment s;

	for (uint64_t i = 0; i < n && segment(im, i, &s); i++) {
		if (s.type == PT_INTERP)
			interpreter(im, &s, f);
		else if (s.type == PT_NOTE && note_of_go(im, &s))
			f->go = true;
	}
}

static bool named(const struct image *im, uint64_t at, const char *name)
{
	size_t len = strlen(name) + 1;

	return inside(im, at, len) && !memcmp(im->bytes + at, name, len);
}

/* Section headers may be stripped or cut: then they tell nothing. */
static void sections(struct image im, struct elf_facts *f)
{
	uint64_t base = word(&im, offsetof(Elf64_Ehdr, e_shoff),
			     offsetof(Elf32_Ehdr, e_shoff));
	uint64_t step = number(&im, im.wide ? 58 : 46, 2);
	uint64_t n = number(&im, im.wide ? 60 : 48, 2);
	uint64_t names = base + step * number(&im, im.wide ? 62 : 50, 2);
	uint64_t strings;

	if (!base || base > im.size || step < (im.wide ? 64 : 40))
		return;
	strings = word(&im, names + 24, names + 16);
	for (uint64_t i = 0; i < n && !im.damaged; i++) {
		uint64_t at = strings + number(&im, base + i * step, 4);

		if (named(&im, at, ".note.go.buildid") ||
		    named(&im, at, ".go.buildinfo"))
			f->go = true;
	}
}

void elf_inspect(const void *image, size_t size, struct elf_facts *facts)
{
	struct image im = { .bytes = image, .size = size };

	*facts = (struct elf_facts){ 0 };
	if (!magic(image, size, facts))
		return;
	facts->is_elf = true;
	im.wide = facts->class == ELFCLASS64;
	im.big = facts->data == ELFDATA2MSB;
	facts->type = (uint16_t)number(&im, 16, 2);
	facts->machine = (uint16_t)number(&im, 18, 2);
	segments(&im, facts);
	facts->damaged = im.damaged;
	sections(im, facts);
}

/* The names that glibc installs its dynamic linker under (ld.so(8)). */
static bool glibc_loader(const char *interp)
{
	const char *name = basename(interp);

	return !strncmp(name, "ld-linux", strlen("ld-linux")) ||
	       !strncmp(name, "ld64.so.", strlen("ld64.so.")) ||
	       !strcmp(name, "ld.so.1");
}

const char *elf_refusal(const struct elf_facts *program,
			const struct elf_facts *shim)
{
	if (program->damaged)
		return "its ELF headers are damaged";
	if (program->class != shim->class)
		return program->class == ELFCLASS32
			       ? "it is a 32-bit program, and the library for "
				 "these is not installed (make install-lib32)"
			       : "it is a 64-bit program, the shim has 32 bits";
	if (program->machine != shim->machine || program->data != shim->data)
		return "it is built for another machine";
	if (program->go)
		return "it is a Go program: it locks by raw system calls, "
		       "not through libc";
	if (!*program->interp)
		return "it is statically linked";
	if (!glibc_loader(program->interp))
		return "it does not use glibc's dynamic linker (musl?)";
	return NULL;
}
