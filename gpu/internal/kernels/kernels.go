// Package kernels holds the CUDA sources of the gpu engine. rollout.cu is the one
// that is compiled, by nvcc for a GPU and, with the shim in cpu, by g++ for the
// CPU; launch.h is what its kernels are told, weights.h the layout of the network.
package kernels

import "embed"

// Sources are the files of this folder that make the kernels, the CPU's among them.
//
//go:embed *.cu *.cuh *.h cpu/*
var Sources embed.FS
