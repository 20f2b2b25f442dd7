// The kernels that there are: one for each number of routes that a block runs. This
// is the one list of them: the builds that compile each kernel in a call of its own
// read the numbers here, and compile with -DLOCKSTEP_ONLY=<number>.
#pragma once

#define LOCKSTEP_VARIANTS(V) V(1) V(2) V(4) V(5) V(6)
