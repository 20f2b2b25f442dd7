// A plugin of qemu-user that counts the instructions a program of arm64 executes, and those of them
// that multiply and add four float32. What Go's runtime does, which takes more the longer the
// program waits, is left out. Debian has no header of plugins: what is used of it stands
// here, as version 1 of the interface has it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct block;
struct instruction;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
size_t qemu_plugin_tb_n_insns(const struct block *);
struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t);
const char *qemu_plugin_insn_symbol(const struct instruction *);
const void *qemu_plugin_insn_data(const struct instruction *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
void qemu_plugin_outs(const char *);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

// A counter is of one translated block; blocks are translated more than once.
struct counter {
  uint64_t executed, instructions, fused;
  struct counter *next;
};
static struct counter *all;

static void execute(unsigned cpu, void *counter) {
  (void)cpu;
  __atomic_fetch_add(&((struct counter *)counter)->executed, 1, __ATOMIC_RELAXED);
}

static void translate(plugin_id id, struct block *b) {
  (void)id;
  const char *name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(b, 0));
  if (!name || !strncmp(name, "runtime.", 8) || !strncmp(name, "internal/runtime/", 17))
    return;
  struct counter *c = calloc(1, sizeof *c);
  c->instructions = qemu_plugin_tb_n_insns(b);
  for (size_t i = 0; i < c->instructions; i++) {
    uint32_t word;
    memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(b, i)), 4);
    // FMLA and FMLS, .4S, by a vector and by an element
    c->fused += (word & 0xff60fc00) == 0x4e20cc00 || (word & 0xffc0b400) == 0x4f801000;
  }
  c->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&all, &c->next, c, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  qemu_plugin_register_vcpu_tb_exec_cb(b, execute, 0, c);
}

static void finish(plugin_id id, void *p) {
  (void)id, (void)p;
  uint64_t instructions = 0, fused = 0;
  for (struct counter *c = all; c; c = c->next) {
    instructions += c->executed * c->instructions;
    fused += c->executed * c->fused;
  }
  char text[99];
  snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 "\n", instructions, fused);
  qemu_plugin_outs(text);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int n,
                                                               char **args) {
  (void)info, (void)n, (void)args;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_atexit_cb(id, finish, 0);
  return 0;
}
