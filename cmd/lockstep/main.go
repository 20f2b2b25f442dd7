// Command lockstep rolls out steering controllers in tinyphysics, with the bits
// of the Python program.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"lockstep/engines"
	"lockstep/internal/plain"
	"lockstep/internal/search"
	"lockstep/internal/want"
)

type commands struct {
	Demo     demoCommand     `cmd:"" help:"Roll a few routes out on every engine, compare the bits, draw the drives."`
	Rollout  rolloutCommand  `cmd:"" help:"Roll routes out and print their costs."`
	Envs     envsCommand     `cmd:"" help:"List Gymnasium's classic control environments."`
	Eval     evalCommand     `cmd:"" help:"Compare two controllers and write a report."`
	Compare  compareCommand  `cmd:"" help:"Compare engines with each other, with the recordings of the Python program, or with traces, bit by bit."`
	Replay   replayCommand   `cmd:"" help:"Repeat cases that were kept, on every engine."`
	Mutants  mutantsCommand  `cmd:"" help:"Plant faults in the engines, one at a time, and see whether each is found and its stage named."`
	Gate     gateCommand     `cmd:"" help:"Run what a change must pass before it is merged."`
	Verify   verifyCommand   `cmd:"" help:"Score a Python controller in the unmodified rules, and say what it touches beyond its arguments."`
	Tune     tuneCommand     `cmd:"" help:"Search for the gains of a controller."`
	Plan     planCommand     `cmd:"" help:"Search for the actions of each route."`
	Export   exportCommand   `cmd:"" help:"Write a policy as a controller of the challenge, in Python."`
	Watch    watchCommand    `cmd:"" help:"Say how far a run is, from its folder."`
	Shard    shardCommand    `cmd:"" help:"Compute a run in parts, on as many machines as there are."`
	Generate generateCommand `cmd:"" help:"Make routes."`
	Bench    benchCommand    `cmd:"" help:"Measure speed, as ratios within one run."`
	Fetch    fetchCommand    `cmd:"" help:"Download the challenge's network or routes."`
	Doctor   doctorCommand   `cmd:"" help:"Say what is here, what is missing, and what mends it."`
	Version  versionCommand  `cmd:"" help:"Say which release and commit this is, and which profiles it has."`
}

// newCommands makes the commands, with the flags of all families.
func newCommands() *commands {
	var c commands
	c.Rollout.familyFlags, c.Compare.familyFlags = newFamilyFlags(), newFamilyFlags()
	c.Bench.benchFlags = newBenchFlags()
	return &c
}

func main() { os.Exit(begin(os.Args[1:])) }

// begin runs a command line in this process, and returns its exit status.
func begin(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what the first does not reach
	signal.Notify(
		make(chan os.Signal, 1), syscall.SIGPIPE,
	) // an error of the write, and not the end
	if stdoutClosed() {
		os.Stdout.Close() // that of /dev/null, which Go opens in its place
	}
	return run(ctx, args, &stickyWriter{w: os.Stdout, end: stop}, os.Stderr)
}

// newParser is the command line's. It notes that help was asked for, and printed.
func newParser(env *environment, helped *bool) (*kong.Kong, error) {
	return kong.New(
		newCommands(), kong.Name("lockstep"),
		kong.Description("The tinyphysics simulator, equal to the Python program bit for bit."),
		kong.Vars{
			"engines": strings.Join(engines.Names(), ","),
			"wants":   strings.Join(want.Names(), ", "),
			"kinds":   kinds(),
			"tuned":   strings.Join(search.Kinds(), ","),
		},
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(int) { *helped = true }), // after --help
		kong.Bind(env), kong.UsageOnError(),
	)
}

func run(ctx context.Context, args []string, stdout *stickyWriter, stderr io.Writer) int {
	// Whoever wrote it: controllers, journals, names of files.
	stdout.w, stderr = plain.NewWriter(stdout.w), plain.NewWriter(stderr)
	env := &environment{ctx: ctx, args: args, stdout: stdout, stderr: stderr}
	defer func() {
		for _, end := range slices.Backward(env.ends) {
			end()
		}
	}()
	helped := false
	parser, err := newParser(env, &helped)
	if err != nil {
		panic(err) // the commands above are not what kong wants
	}
	if err := checkArguments(args); err != nil {
		fmt.Fprintf(stderr, "lockstep: %v\n", err)
		return exitUsage
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	if len(args) > 0 && args[0] == "--version" { // as other programs have it
		args = append([]string{"version"}, args[1:]...)
	}
	command, err := parser.Parse(args)
	if helped {
		err = nil
	} else if err == nil {
		for _, p := range command.Path {
			if p.Flag != nil {
				env.given = append(env.given, p.Flag.Name)
			}
		}
		err = cmp.Or(
			checkFamily(command), env.checkHeeded(command.Selected().Name), checkFiles(command),
		)
		if err == nil {
			err = command.Run()
		}
	}
	if env.stdout.err != nil {
		err = fmt.Errorf("standard output: %w", env.stdout.err)
	}
	var status exitStatus
	if errors.As(err, &status) || err == nil {
		env.tell()
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case ctx.Err() != nil && env.stdout.err == nil: // which is why, whatever it failed of
		env.interrupted(err.Error())
		return exitInterrupted
	default:
		fmt.Fprintf(stderr, "lockstep: %v\n", err)
		return exitUsage
	}
}

// checkArguments refuses empty ones, which come of variables that are not set, and
// would else mean what the flag means where it is not given.
func checkArguments(args []string) error {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch {
		case arg == "" && i > 0:
			return fmt.Errorf("the argument after %s is empty", args[i-1])
		case given && value == "" && strings.HasPrefix(name, "--"):
			return fmt.Errorf("%s is empty", name)
		}
	}
	return nil
}
