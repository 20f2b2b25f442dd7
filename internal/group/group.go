package group

import (
	"context"
	"os/exec"
)

// Command is a program that is ended with the context, together with what it has started, and on
// Linux with this process, if that is killed.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	Set(command)
	dies(command)
	command.Cancel = func() error { Kill(command.Process); return nil }
	return command
}
