package group

import (
	"os/exec"
	"syscall"
)

// dies has the process end with this one, which may be killed and then ends no group. What the
// process has started ends only if it was started so, too. The kernel looks at the thread that has
// started it, which Go keeps: a goroutine that has locked its thread and ends with it is not to
// call Start.
func dies(command *exec.Cmd) { command.SysProcAttr.Pdeathsig = syscall.SIGKILL }
