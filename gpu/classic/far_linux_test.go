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

// TestFinal: what stands in each step's buffer of final observations goes up, since a step leaves
// some of them alone.
func TestFinal(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(1)
	v := &vector{task: task, device: &driver.Ledger{Device: &vast{t: t}}}
	var l launch
	var record []classic.Transition
	var want []float32
	for k := range 4 {
		final := make([]float32, 3*len(task.Observation))
		for i := range final {
			final[i] = float32(100*k + i)
		}
		record = append(record, classic.Transition{Final: final, Rewards: make([]float64, 3)})
		want = append(want, final...)
	}
	asked := v.asked(&l, record, false)
	uploaded, answered, err := v.place(
		&l, classic.Policy{Uniform: &key}, asked, record, int64(len(record)))
	if got := valuesOf[float32](v.answers.host[:4*len(want)]); err != nil || answered != 0 ||
		uploaded < int64(4*len(want)) || !slices.Equal(got, want) {
		t.Errorf("%d bytes go up, answers begin at %d, %v: %v, want %v", uploaded, answered, err,
			got, want)
	}
}

// placed is a device that is one of several.
type placed struct {
	driver.Device
	info driver.Info
}

func (p placed) Info() driver.Info { return p.info }

// TestPlace: where the arrays are is where their device is.
func TestPlace(t *testing.T) {
	for _, want := range []driver.Info{{Number: 3, Shared: true}, {Number: 2}} {
		v := &vector{device: &driver.Ledger{Device: placed{info: want}}}
		if number, shared := v.Place(); number != want.Number || shared != want.Shared {
			t.Errorf("on device %d, shared %v, want %+v", number, shared, want)
		}
	}
}
