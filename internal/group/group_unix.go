//go:build unix

package group

import (
	"os"
	"os/exec"
	"syscall"
)

// Set puts the process into a group of its own, so that an interrupt from the keyboard
// is the parent's alone.
func Set(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// AskForStack makes a Python process write where it is to standard error.
func AskForStack(p *os.Process) bool { return syscall.Kill(p.Pid, syscall.SIGUSR1) == nil }

// Kill ends the process and what it has started.
func Kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }
