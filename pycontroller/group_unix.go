//go:build unix

package pycontroller

import (
	"os"
	"os/exec"
	"syscall"
)

// setGroup puts the process into a group of its own, so that an interrupt from
// the keyboard is the parent's alone, which then closes the pipe.
func setGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// askForStack makes the process write where it is to standard error.
func askForStack(p *os.Process) bool { return syscall.Kill(p.Pid, syscall.SIGUSR1) == nil }

// kill ends the process and what it has started.
func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }
