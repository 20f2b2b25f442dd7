package reference

import (
	"testing"

	"lockstep/internal/policytest"
)

func TestElementary(t *testing.T) { policytest.HoldElementary(t, exp, log, atanh2) }
