// Package sandbox starts programs that can neither write files nor reach a network, without
// rights of its own: by Linux's Landlock and seccomp.
package sandbox
