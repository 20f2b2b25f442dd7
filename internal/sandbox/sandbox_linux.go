package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writing is all that changes files, in the version of Landlock that has it all.
const (
	writing = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	needed = 3 // of Landlock's versions
)

// architectures are those whose numbers of system calls are known here.
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64,
	"arm64": unix.AUDIT_ARCH_AARCH64,
}

// Available is nil if programs can be shut in here, or says what is missing.
func Available() error {
	version, _, errno := unix.Syscall(
		unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return missing(runtime.GOARCH, version, errno)
}

func missing(architecture string, version uintptr, errno unix.Errno) error {
	switch {
	case architectures[architecture] == 0:
		return fmt.Errorf("the network cannot be denied: the system calls of %s are not known here",
			architecture)
	case errno != 0:
		return fmt.Errorf(
			"writing cannot be denied: this kernel has no Landlock, or it is off (%w); "+
				"Linux has it from 5.13 on",
			errno,
		)
	case version < needed:
		return fmt.Errorf(
			"writing cannot be denied: this kernel's Landlock is of version %d, in which "+
				"files can be cut off; Linux has version %d from 6.2 on",
			version, needed,
		)
	}
	return nil
}

// Start calls start, and what that starts can neither write nor reach a network, nor can what it
// starts in turn. What it was handed open it may write to, and to the null device.
func Start(start func() error) error {
	if err := Available(); err != nil {
		return err
	}
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		if err := shut(); err != nil {
			ended <- fmt.Errorf("the sandbox cannot be made: %w", err)
			return
		}
		ended <- start()
	}()
	return <-ended
}

// shut shuts in the thread.
func shut() error {
	rules := unix.LandlockRulesetAttr{Handled_access_fs: writing}
	ruleset, _, errno := unix.Syscall(
		unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)),
		unsafe.Sizeof(rules.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(ruleset))
	null, err := unix.Open(os.DevNull, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	allowed := unix.LandlockPathBeneathAttr{
		Allowed_access: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		Parent_fd:      int32(null),
	}
	_, _, errno = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset,
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&allowed)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %s: %w", os.DevNull, errno)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return filter()
}

// filter has the kernel refuse the thread whatever makes sockets, those to programs of this
// machine included, and system calls in another architecture's numbers.
func filter() error {
	const (
		number, architecture = 0, 4 // where they are in what the filter sees
		x32                  = 0x40000000
		refuse               = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	give := func(what uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	program := []unix.SockFilter{
		load(architecture),
		jump(unix.BPF_JEQ, architectures[runtime.GOARCH], 1, 0),
		give(refuse),
		load(number),
		jump(unix.BPF_JGE, x32, 2, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 0, 1),
		give(refuse),
		give(unix.SECCOMP_RET_ALLOW),
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&filter)), 0, 0)
	runtime.KeepAlive(program)
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
