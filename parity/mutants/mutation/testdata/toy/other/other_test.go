package other

import (
	"testing"

	"lockstep/parity/mutants/mutation/testdata/toy"
)

func TestOther(t *testing.T) {
	t.Run("not asked", func(t *testing.T) { t.Log(toy.Helped(0)) })
	t.Run("helps", func(t *testing.T) {
		if got := toy.Helped(1); got != 3 {
			t.Errorf("%v, want 3", got)
		}
	})
}
