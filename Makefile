# SPDX-License-Identifier: MIT
#
# make            build into build/
# make build-deps install what a build needs (Debian packages)
# make deps       the same for the tests as well
# make lib32      the library for 32-bit programs, into build32/; make deps-lib32
#                 gets what that needs, make install-lib32 installs it
# make demo       two hosts on this machine, with and without dlock
# make check-fast unit, static and conform tests: under a minute
# make check      every test; ends with 'N passed, N failed'
# make torture    the long tests (tests/torture), with figures
# make fuzz       coverage-guided fuzzing (tests/fuzz); FUZZ_SECONDS of each target
# make model      the protocol's models, searched through (tests/model)
# make bench      figures beside those of its peers; BENCH=quick for a short run
# make lint       compiler warnings, cppcheck, clang-tidy, clang-format, shellcheck
# make house      how large it is and how it hangs together: figures only
# make install    PREFIX=/usr/local DESTDIR=; PREFIX=$HOME/.local needs no root
# make uninstall  with the same PREFIX; a dlock.conf stays
# make deb, rpm   a package of it, in build/package
# V=1 shows the commands.

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib/dlock
LIBEXECDIR ?= $(PREFIX)/libexec/dlock
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
# Of a system's own prefix /etc, as elsewhere.
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
TMPFILES   ?= $(PREFIX)/lib/tmpfiles.d
COMPDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
DESTDIR    ?=

B       ?= build
CC      ?= cc
# Of what is run by the build itself, whatever it builds for.
HOSTCC  ?= cc
# Is this an i386 build?  (make lib32 has CC='cc -m32'.)
I386    := $(shell $(CC) -dM -E - </dev/null 2>/dev/null | grep -w __i386__)
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings \
           -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough
DEFS    := -D_GNU_SOURCE -DDLK_PREFIX='"$(PREFIX)"' -DDLK_LIBDIR='"$(LIBDIR)"' \
           -DDLK_LIBEXECDIR='"$(LIBEXECDIR)"' -DDLK_SYSCONFDIR='"$(SYSCONFDIR)"' \
           $(if $(SEED_BUG),-DSEED_BUG=$(SEED_BUG)) $(if $(I386),-D_FILE_OFFSET_BITS=64 -Wno-psabi)
ALLFLAGS = -std=gnu17 $(WARN) $(DEFS) $(if $(SAN),-DDLK_CHECK) -I. -Ishim -I$(B)/gen -isystem /usr/include -include os/older.h $(CFLAGS) $(SAN)
# Of glibc before 2.34 they are libraries of their own; empty since.
LIBC    := -lpthread -ldl
HARDEN  := -fstack-protector-strong -D_FORTIFY_SOURCE=2

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$1' '$2')

MODEL  := $(wildcard shim/model/*.c)
OS     := $(wildcard shim/os/*.c)
REDIS  := $(wildcard shim/redis/*.c)
LEASE  := $(wildcard shim/lease/*.c)
HOLD   := $(wildcard shim/hold/*.c)
LOCK   := $(wildcard shim/lock/*.c)
ENTRY  := $(wildcard shim/entry/*.c)
KEEPER := $(wildcard shim/keeper/*.c)
TLS    := $(wildcard shim/tls/*.c)
CONFIG := $(wildcard config/*.c)
RUN    := $(wildcard tools/dlock.c tools/run*.c)
CTL    := $(filter-out $(RUN),$(wildcard tools/*.c))
RUN    += $(wildcard tools/common*.c)
LUA    := $(wildcard shim/lease/scripts/*.lua)
UNIT   := $(wildcard tests/unit/test_*.c)
HELPERS := $(wildcard tests/programs/*.c tests/bench/*.c)
PRELOADS := $(wildcard tests/preload/*_so.c)

# The shim hides everything and is position independent; its hiredis takes
# memory from an arena of ours (DESIGN L7).  The tools share its objects.
obj = $(patsubst %.c,$(B)/obj/%.o,$1)
SHIM_OBJ   := $(call obj,$(MODEL) $(OS) $(REDIS) $(LEASE) $(HOLD) $(LOCK) $(ENTRY) $(CONFIG))
KEEPER_OBJ := $(call obj,$(MODEL) $(OS) $(REDIS) $(LEASE) $(KEEPER))
CORE_OBJ   := $(call obj,$(MODEL) $(OS) $(REDIS) $(LEASE) $(CONFIG))

archive = $(firstword $(wildcard $(addsuffix /lib$1.a,$(ARCHIVES) \
          $(shell $(CC) -print-multi-os-directory 2>/dev/null | sed 's,^,/usr/lib/,') \
          /usr/lib/$(shell $(CC) -print-multiarch 2>/dev/null) /usr/lib)))
wanted = $(if $2,,@echo "lib$1.a is not there: make build-deps, or install lib$1 as a static library" >&2; exit 1)
LIBHIREDIS := $(call archive,hiredis)
LIBCONFUSE := $(call archive,confuse)

PRODUCTS := $(B)/libdlock-preload.so $(B)/dlock $(B)/dlockctl $(B)/dlock-keeper $(B)/dlock-tls

.PHONY: FORCE all lib32 why-no-lib32 deps-lib32 lib32-if-any install-lib32 build-deps deps demo check check-fast torture fuzz fuzzers model bench lint house install uninstall deb rpm clean helpers test-programs
all: $(PRODUCTS)

$(B)/libdlock-preload.so: $(SHIM_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a $(B)/gen/symbols.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(SAN) -o $@ $(SHIM_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a \
	  -Wl,--version-script=$(B)/gen/symbols.map -Wl,-soname,libdlock-preload.so \
	  -Wl,-z,now,-z,relro,-z,defs,--exclude-libs,ALL,--gc-sections $(LIBC)

$(B)/dlock-keeper: $(KEEPER_OBJ) $(B)/gen/hiredis.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(SAN),,-static) $(CFLAGS) $(SAN) -o $@ $^ -Wl,--gc-sections -lpthread 2>$(B)/gen/keeper.ld || { cat $(B)/gen/keeper.ld; exit 1; }

# Dynamic, so that OpenSSL is the one that the system keeps up to date.
$(B)/dlock-tls: $(call obj,$(MODEL) $(OS) $(TLS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SAN) -o $@ $^ -Wl,--gc-sections -lssl -lcrypto $(LIBC)

$(B)/dlock: $(call obj,$(RUN)) $(CORE_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SAN) -o $@ $^ $(LIBC)

$(B)/dlockctl: $(call obj,$(CTL)) $(CORE_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SAN) -o $@ $^ $(LIBC)

# Changes only when the flags do: another PREFIX is compiled in.
$(B)/gen/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALLFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALLFLAGS)' >$@

$(B)/obj/%.o: %.c Makefile $(B)/gen/flags | $(B)/gen/scripts.h $(B)/gen/symbols.map
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) $(HARDEN) -fPIC -fvisibility=hidden -ffunction-sections -MMD -MP -c -o $@ $<

# Both libraries with their allocator's names replaced by those of os/arena.c;
# libconfuse with libc's streams replaced by those of config/streams.c, too.
ALLOCATOR := $(foreach f,malloc calloc realloc reallocarray free strdup strndup,\
             --redefine-sym $f=dlk_arena_$f)
$(B)/gen/hiredis.a: $(LIBHIREDIS) Makefile
	$(call wanted,hiredis,$(LIBHIREDIS))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)objcopy $(ALLOCATOR) $< $@

$(B)/gen/confuse.a: $(LIBCONFUSE) Makefile
	$(call wanted,confuse,$(LIBCONFUSE))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)objcopy $(ALLOCATOR) \
	  $(foreach f,stdin stdout stderr fmemopen,--redefine-sym $f=dlk_$f) $< $@

# Each script as a string, with the SHA-1 that EVALSHA calls it by.
$(B)/gen/embed: shim/lease/scripts/embed.c shim/model/sha1.c shim/model/sha1.h $(B)/gen/flags
	$(call say,GEN,$@)
	$(Q)$(HOSTCC) -std=gnu17 $(WARN) -D_GNU_SOURCE -I. -Ishim -o $@ $(filter %.c,$^)

$(B)/gen/scripts.h: $(LUA) $(wildcard shim/lease/scripts/*.inc) $(B)/gen/embed
	$(call say,GEN,$@)
	$(Q)$(B)/gen/embed $(LUA) >$@.tmp && mv $@.tmp $@

# The exported symbols are those of the table and no others; of i386 fcntl() has
# two versions (entry/lock_calls.c), and names without one cannot be listed then.
$(B)/gen/symbols.map: shim/os/table.h $(B)/gen/flags
	$(call say,GEN,$@)
	@mkdir -p $(@D)
ifdef I386
	$(Q)echo 'GLIBC_2.0 { local: dlk_fcntl_2_0; }; GLIBC_2.28 { global: fcntl; };' >$@
else
	$(Q)awk -F'[(,) ]+' 'BEGIN { print "{ global:" } /^[[:space:]]*X\(/ { sub(/^[[:space:]]*X\(/, ""); sub(/,.*/, ""); print "\t" $$0 ";" } \
	  END { print "local: *; };" }' $< >$@
endif

# --- tests ---------------------------------------------------------------

UNIT_BIN    := $(patsubst tests/unit/%.c,$(B)/tests/%,$(UNIT))
HELPER_BIN  := $(patsubst %.c,$(B)/tests/%,$(notdir $(HELPERS)))
HELPER_SO   := $(patsubst %_so.c,$(B)/tests/%.so,$(notdir $(PRELOADS)))
helpers: $(HELPER_BIN) $(HELPER_SO)
test-programs: $(UNIT_BIN) helpers

# A unit test names what it links beyond the core with '// link: FILE...', and
# the functions that it has one of its own for (__wrap_NAME) with '// wrap: NAME'.
linked = $(call obj,$(shell sed -n 's,^// link: ,,p' tests/unit/$1.c))
wrapped = $(addprefix -Wl$(comma)--wrap=,$(shell sed -n 's,^// wrap: ,,p' tests/unit/$1.c))
comma := ,
.SECONDEXPANSION:
$(UNIT_BIN): $(B)/tests/%: tests/unit/%.c $$(call linked,$$*) $(CORE_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -MMD -MP -MT $@ -o $@ $(filter-out %.h,$^) $(call wrapped,$*) -lcmocka

$(B)/tests/%.so: tests/preload/%_so.c Makefile
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -fPIC -shared -MMD -MP -MT $@ -o $@ $< -ldl

# Of the helpers, this one asks Redis as the shim does.
$(B)/tests/bench_records: tests/bench/bench_records.c $(CORE_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -MMD -MP -MT $@ -o $@ $(filter-out %.h,$^)

# And these as anybody does, by hiredis.
$(B)/tests/bench_cycle $(B)/tests/bench_wake: LDLIBS += -lhiredis
$(B)/tests/lockfs: LDLIBS += -lfuse3

$(filter-out %/bench_records,$(HELPER_BIN)): $(B)/tests/%: $$(wildcard tests/programs/$$*.c tests/bench/$$*.c) Makefile
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -MMD -MP -MT $@ -o $@ $< $(LDLIBS) -lpthread

# libFuzzer's: each is one file, with '// link:' as a unit test has it.
FUZZ     := $(wildcard tests/fuzz/*.c)
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -Wno-format-nonliteral
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ))
fuzz_linked = $(call obj,$(shell sed -n 's,^// link: ,,p' tests/fuzz/$1.c))
$(FUZZ_BIN): $(B)/fuzz/%: tests/fuzz/%.c tests/fuzz/fuzz.h $$(call fuzz_linked,$$*) $(CORE_OBJ) $(B)/gen/hiredis.a $(B)/gen/confuse.a
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -fsanitize=fuzzer -o $@ $(filter-out %.h,$^)

fuzzers:
	$(Q)$(MAKE) --no-print-directory -j2 B=build-fuzz CC=clang \
	  CFLAGS='-O1 -g' SAN='-fsanitize=fuzzer-no-link $(FUZZ_SAN)' \
	  $(patsubst tests/fuzz/%.c,build-fuzz/fuzz/%,$(FUZZ))

fuzz: deps
	$(Q)FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) bash tests/lib/check.sh --verbose tests/fuzz/fuzz.t

# --- 32-bit programs -----------------------------------------------------

# The library for i386 programs, on x86-64: with the compiler's -m32, libc's part
# for that (gcc-multilib), and Debian's static libraries of i386, unpacked here.
# It speaks with the same keeper: what is said has one layout for both.
B32    := $(B)32
CC32   := $(CC) -m32
in_32   = B=$(B32) CC='$(CC32)' ARCHIVES=$(B32)/archives

lib32:
	$(Q)why=$$(sh tests/lib/lib32.sh why $(B32)/archives $(CC32)) && [ -z "$$why" ] || { echo "lib32: $$why" >&2; exit 1; }
	$(Q)$(MAKE) --no-print-directory $(in_32) $(B32)/libdlock-preload.so
	$(Q)ln -sfr $(B)/dlock-keeper $(B)/dlock-tls $(B32)/

why-no-lib32:
	@sh tests/lib/lib32.sh why $(B32)/archives $(CC32)

deps-lib32:
	$(Q)sh tests/lib/deps.sh lib32
	$(Q)sh tests/lib/lib32.sh get $(B32)/archives $(CC32)

# What $LIB is to each dynamic linker (ld.so(8)): under PREFIX the library of
# either size is where LD_PRELOAD='PREFIX/$LIB/dlock/libdlock-preload.so' looks.
lib_of  = $(shell $1 --list-diagnostics 2>/dev/null | sed -n 's/^dl_dst_lib="\(.*\)"$$/\1/p')
by_lib  = $(foreach w,$2,755:$1/libdlock-preload.so:$(PREFIX)/$w/dlock/libdlock-preload.so)
LIB64   = $(call lib_of,/lib64/ld-linux-x86-64.so.2)
LIB32   = $(call lib_of,/lib/ld-linux.so.2)
INSTALLED32 = $(call by_lib,$(B),$(LIB64)) $(call by_lib,$(B32),$(LIB32))

# Those that are there, also by the word of a linker that was exchanged since.  An
# install brings them along, for a library is of one version with its keeper.
there   = $(sort $(foreach f,$(filter-out %:$(LIBDIR)/libdlock-preload.so,$(call by_lib,$1,$2)),\
	  $(shell [ ! -e '$(DESTDIR)$(lastword $(subst :, ,$f))' ] || echo $f)))
OLD64   = $(call there,$(B),lib64 lib/x86_64-linux-gnu $(LIB64))
OLD32   = $(call there,$(B32),lib32 lib/i386-linux-gnu $(LIB32))

install-lib32: all lib32
	$(Q)$(installer) put $(INSTALLED32)

# Of the tests: where there are none, their tests say why.
lib32-if-any:
	$(Q)sh tests/lib/lib32.sh get $(B32)/archives $(CC32) && $(MAKE) --no-print-directory lib32 || true

build-deps:
	$(Q)sh tests/lib/deps.sh build

deps:
	$(Q)sh tests/lib/deps.sh

# What its two hosts are made with (tests/lib/rig.sh); demo.t has no other.
DEMO_HELPERS := host_init in_host locker now
demo:
	$(Q)sh tests/lib/deps.sh demo
	$(Q)$(MAKE) --no-print-directory -j2 all $(DEMO_HELPERS:%=$(B)/tests/%)
	$(Q)bash tests/hosts/tools/demo.sh

check-fast: deps
	$(Q)$(MAKE) --no-print-directory -j2 all test-programs lib32-if-any
	$(Q)bash tests/lib/check.sh --fast

check: deps
	$(Q)$(MAKE) --no-print-directory -j2 all test-programs lib32-if-any
	$(Q)bash tests/lib/check.sh

torture: deps
	$(Q)$(MAKE) --no-print-directory -j2 all test-programs
	$(Q)bash tests/lib/check.sh --verbose tests/torture/*.t

model: deps
	$(Q)B=$(B) bash tests/model/run.sh

bench:
	$(Q)sh tests/lib/deps.sh bench
	$(Q)$(MAKE) --no-print-directory all test-programs
	$(Q)bash tests/bench/run.sh

lint: deps
	$(Q)$(MAKE) --no-print-directory all test-programs
	$(Q)bash tests/static/lint.sh

house: deps
	$(Q)$(MAKE) --no-print-directory -j2 all helpers
	$(Q)bash tests/static/house.sh

# MODE:FILE:PLACE.  The library comes last: a program that starts in the middle
# finds the keeper that it will need.
INSTALLED := \
	755:$(B)/dlock-keeper:$(LIBEXECDIR)/dlock-keeper \
	755:$(B)/dlock-tls:$(LIBEXECDIR)/dlock-tls \
	755:$(B)/dlock:$(BINDIR)/dlock \
	755:$(B)/dlockctl:$(BINDIR)/dlockctl \
	644:config/dlock.conf.5:$(MANDIR)/man5/dlock.conf.5 \
	644:config/dlock.7:$(MANDIR)/man7/dlock.7 \
	644:tools/dlock.1:$(MANDIR)/man1/dlock.1 \
	644:tools/dlockctl.1:$(MANDIR)/man1/dlockctl.1 \
	644:config/dlock.conf:$(SYSCONFDIR)/dlock/dlock.conf.sample \
	644:config/tmpfiles.conf:$(TMPFILES)/dlock.conf \
	644:tools/completion.bash:$(COMPDIR)/dlockctl \
	644:tools/completion.bash:$(COMPDIR)/dlock \
	644:tools/completion.zsh:$(ZSHDIR)/_dlockctl \
	755:$(B)/libdlock-preload.so:$(LIBDIR)/libdlock-preload.so

installer = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' SYSCONFDIR='$(SYSCONFDIR)' \
	DESTDIR='$(DESTDIR)' sh tools/install.sh

install: all $$(if $$(OLD32),lib32)
	$(Q)$(installer) put $(INSTALLED) $(if $(OLD32),$(OLD64) $(OLD32))

uninstall:
	$(Q)$(installer) remove $(INSTALLED) $(OLD64) $(OLD32)

deb rpm:
	$(Q)sh tests/lib/deps.sh package
	$(Q)sh tools/packaging/build.sh $@

clean:
	rm -rf $(B) $(B32)

-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
