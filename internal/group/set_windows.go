package group

import (
	"os/exec"
	"syscall"
)

// Set puts the process into a group of its own, so that Ctrl-C is the parent's alone.
func Set(command *exec.Cmd) {
	const flags = syscall.CREATE_NEW_PROCESS_GROUP
	command.SysProcAttr = &syscall.SysProcAttr{CreationFlags: flags}
}
