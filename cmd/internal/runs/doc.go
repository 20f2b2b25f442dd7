// Package runs keeps what a long run has computed, so that nothing is lost and
// nothing is computed twice, on one machine or on many.
//
//   - A Plan is what is to be computed, down to contents: the hashes of the network,
//     the routes and the controllers, the profile, the engine and its build. Plans
//     with equal keys have equal results.
//   - A Journal is the folder of a run: its plan, the results so far and a lock.
//     Stream computes what the journal lacks and hands results on in the plan's order,
//     each once it is on the disk.
//   - A shard is a part of a plan, computed anywhere into a file that is named by its
//     content; Merge puts shards together, and knows which are missing, of another
//     plan, or computed differently twice.
//
// Rollouts are numbered through: all routes under the first controller, then all
// under the second.
package runs
