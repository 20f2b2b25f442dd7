package toy

import "testing"

func TestSeen(t *testing.T) {
	for _, c := range []struct {
		a, b, sum int
		flags     uint8
		inside    bool
	}{
		{5, 3, 64, 0x34, true}, {4, 1, 16, 0x04, true}, {2, 3, 8, 0x14, false},
		{3, 0, 2, 0x14, false}, {0, 3, 0, 0x14, true}, {6, 300, 826, 0x54, true},
	} {
		sum, flags, inside := seen(c.a, c.b)
		if sum != c.sum || flags != c.flags || inside != c.inside {
			t.Errorf("seen(%d, %d) = %d, %#x, %v", c.a, c.b, sum, flags, inside)
		}
	}
}

func TestMissed(t *testing.T) { missed(1) }

func TestEndless(t *testing.T) {
	if endless(3) != 3 {
		t.Error("three steps are others")
	}
}

func TestLast(t *testing.T) {
	if all := map[string]int{}; last(all) != "a" || all["a"] != 3 {
		t.Error(all)
	}
}
