package classic

import (
	"slices"
	"syscall"
	"testing"

	"lockstep/classic"
	"lockstep/gpu/internal/driver"
)

// vast is a device with more memory than there is: it is reserved, and nothing is written there.
type vast struct {
	driver.Device
	t    *testing.T
	asks []int64
}

func (v *vast) Allocate(bytes int64) (driver.Pointer, error) {
	v.asks = append(v.asks, bytes)
	return 1 << 46, nil
}

func (v *vast) HostMemory(bytes int64) ([]byte, error) {
	v.asks = append(v.asks, bytes)
	memory, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err == nil {
		v.t.Cleanup(func() { syscall.Munmap(memory) })
	}
	return memory, err
}

// TestVast: a run that leaves more than 4 GiB on the device has room for each of its arrays, one
// behind the other.
func TestVast(t *testing.T) {
	task, err := classic.Make("Acrobot-v1", 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	const steps = 1 << 20
	device, key := &vast{t: t}, uint64(1)
	v := &vector{task: task, device: &driver.Ledger{Device: device}}
	var l launch
	names := []string{"rewards", "states", "terminated", "observations", "truncated", "actions"}
	asked, err := v.named(&l, names)
	if err != nil {
		t.Fatal(err)
	}
	uploaded, answered, err := v.place(&l, classic.Policy{Uniform: &key}, asked, nil, steps)
	if err != nil || uploaded != 0 || answered != 0 {
		t.Fatalf("%d bytes go up, answers begin at %d, %v", uploaded, answered, err)
	}
	at := driver.Pointer(1 << 46)
	for i, numbers := range []int64{8, 4 * 8, 1, 6 * 4, 1, 4} { // bytes of an environment's step
		bytes := numbers * 1000 * steps
		if got := *asked[i].at; got != at || int64(len(asked[i].host)) != bytes {
			t.Errorf("%s are at %x, of %d bytes, want %x and %d", names[i], got,
				len(asked[i].host), at, bytes)
		}
		at += driver.Pointer((bytes + 255) / 256 * 256)
	}
	if need := int64(at - 1<<46); !slices.Equal(device.asks, []int64{need, need}) {
		t.Errorf("device and host are asked for %d bytes, want %d", device.asks, need)
	}
}
