// Package classic runs Gymnasium's classic control environments on a device: a GPU,
// or a process that executes the same kernels on the CPU. A launch is many steps;
// actions are chosen and environments reset inside it.
package classic
