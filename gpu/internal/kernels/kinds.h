// Made by internal/tables from lockstep.Kinds: run `make generate` and `make kernels`.
//
// The kinds of policies that run on the device: names, and how many gains each has and
// how many numbers it remembers. A kind's number is its place here. The host compares
// the list with its own when it has loaded the module.
#pragma once

#define LOCKSTEP_KINDS(K) K(kZero, 0, 0) K(kPID, 3, 2) K(kPIDFF, 10, 3) K(kNetwork, 0, 0) K(kTable, 0, 0)
