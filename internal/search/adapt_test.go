package search

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
)

// TestAdapt holds the distribution to CMA-ES as NumPy computes it from the tutorial's formulas,
// over populations of several sizes, with steps so long that the step size grows, and with both
// that the path follows and that it does not. Sums are in another order there.
func TestAdapt(t *testing.T) {
	widths, start := []float64{0.5, 0.25, 0.125}, []float64{0.1, -0.2, 0.3}
	g := &Gains{step: 1, drawn: make([]float64, 3), path: make([]float64, 3)}
	for i := range 3 {
		g.gains = append(g.gains, lockstep.Gain{Width: widths[i]})
		g.mean = append(g.mean, start[i])
		g.c = append(g.c, make([]float64, 3))
		g.c[i][i] = 1
	}
	for call, want := range []struct {
		population           int
		scale, step          float64
		mean, drawn, path, c []float64 // of C the lower triangle
	}{
		{
			11, 0.25, 0.7620729310927757,
			[]float64{0.11801287926038946, -0.21360515466573296, 0.3179796609233251},
			[]float64{0.05663380467844662, -0.08555119487793837, 0.22611745522670573},
			[]float64{0.05958112957342535, -0.09000343268697411, 0.23788501364455894},
			[]float64{
				0.7950420044586219, -0.0030953644610326628, 0.7924823746478012,
				4.1483232691017424e-05, -0.0033341870497281658, 0.8002680947154167,
			},
		},
		{
			12, 0.5, 0.623567390569478,
			[]float64{0.23903241045771134, -0.20634893565357193, 0.3125123750776817},
			[]float64{0.6200460962519195, 0.029538429691616283, 0.009479072107192454},
			[]float64{0.5752273077973257, 0.025526496584003334, 0.007272140291946533},
			[]float64{
				0.677719533643727, -0.011886633041097036, 0.6307855415857632,
				0.018863056645505232, -0.015361884756686338, 0.6384000791970256,
			},
		},
		{
			9, 3, 1.0314034160468795,
			[]float64{0.7715478680249412, -0.4258806046473341, 0.2702629108718235},
			[]float64{3.2554714971632315, -2.4200460409702353, -1.089022377451819},
			[]float64{0.25527476782438113, 0.011328166101507888, 0.0032272353892959754},
			[]float64{
				1.1260310305730727, -0.45203126876205907, 1.3268511362818112, 0.20050754015765807,
				-0.18394370448227987, 0.8599379476486363,
			},
		},
		{
			20, 0.125, 1.0936454718437898,
			[]float64{0.813047486466403, -0.422326158718136, 0.27150029137852244},
			[]float64{1.5681372030359284, -0.9469885689533669, -0.4701590565688866},
			[]float64{0.29068562324030395, 0.035072504869172516, 0.02230165317834853},
			[]float64{
				0.74613187673035, -0.2952190809187506, 0.868595960292816, 0.13315212758070546,
				-0.12137207941711273, 0.5637332443115041,
			},
		},
		{
			11, 8, 2.972836612889492,
			[]float64{1.3677167796602452, -0.35163832820146507, -0.11772481383942174},
			[]float64{2.670312646698318, 0.6986466852199571, -6.633667254498618},
			[]float64{0.12967498637102065, 0.015645860088332405, 0.009948777444568853},
			[]float64{
				5.472723882092381, -2.583198988422518, 3.7089973787500377, 2.669470010109056,
				-2.620024030377446, 7.663897229464504,
			},
		},
		{
			14, 1.0, 4.44928720244324,
			[]float64{1.710969397466112, -0.18855135167952214, -0.06851431311332587},
			[]float64{1.4823177471935172, 0.7172662959579991, -3.087483286396539},
			[]float64{0.058260408487025885, 0.0070293757137483495, 0.0044697890787411135},
			[]float64{
				4.531480964002583, -2.117688101517881, 3.1182903837950278,
				2.146212027129109, -2.175881820592997, 6.3155482356286505,
			},
		},
		{
			13, 0.05, 4.62041124088576,
			[]float64{1.798177015934358, -0.20848459262913172, -0.06756844225771706},
			[]float64{0.7741448977725766, 0.359678338085717, -1.5595336859327495},
			[]float64{0.096030306691018, -0.028811804684332257, 0.005036750836028027},
			[]float64{
				3.4313578755307823, -1.603474577454201, 2.3607694876932594,
				1.6248044480562103, -1.64718794293123, 4.780767722634756,
			},
		},
		{
			10, 0.6, 4.3828922707923805,
			[]float64{3.3251156803668875, -0.47331992876667395, 0.0542680915505913},
			[]float64{0.9515059980984287, 0.287356669699111, -0.8844306353872572},
			[]float64{1.0960789884397657, -0.37820944963141917, 0.3384297044784657},
			[]float64{
				2.930739594691068, -1.3446093836483803, 1.928350235028803,
				1.3732402499863614, -1.342356343904051, 3.8717559081436645,
			},
		},
		{
			40, 0.4, 3.9316215057077657,
			[]float64{3.6999249066295814, -0.41062365264847517, 0.02377875074766656},
			[]float64{0.6150074190386389, 0.4680278929531564, -0.39256198533242204},
			[]float64{1.0193714647260275, -0.00580419990030781, -0.008052402124090807},
			[]float64{
				1.352979741352761, -0.5791171981030971, 0.8472961516211751,
				0.5980225372253684, -0.586667371698719, 1.6636529138964837,
			},
		},
		{
			400, 0.3, 3.940076652692916,
			[]float64{3.9839774506793457, -0.40191281587709027, 0.021495518950068526},
			[]float64{1.2942694606929388, 0.9524183085148703, -0.29266232016715704},
			[]float64{1.7807483171936287, 0.07550548870859693, -0.045056563455189845},
			[]float64{
				0.12702812445154207, -0.023514922162027246, 0.0564816661285468,
				0.02489764206218429, -0.027738929619474006, 0.05525578747965446,
			},
		},
	} {
		var steps [][]float64
		for k := range want.population {
			y := make([]float64, 3)
			for i := range y {
				y[i] = float64((7*k+5*i+3*call)%11-5) / 4 * want.scale
			}
			y[0] += 0.5 * want.scale
			steps = append(steps, y)
		}
		g.adapt(steps)
		near := func(name string, got, want []float64) {
			for i, x := range want {
				if d := math.Abs(got[i] - x); !(d <= 1e-12*math.Max(1, math.Abs(x))) {
					t.Errorf("call %d: %s[%d] is %v, NumPy has %v", call, name, i, got[i], x)
				}
			}
		}
		var lower []float64
		for i, row := range g.c {
			lower = append(lower, row[:i+1]...)
		}
		near("mean", g.mean, want.mean)
		near("drawn", g.drawn, want.drawn)
		near("path", g.path, want.path)
		near("C", lower, want.c)
		near("step", []float64{g.step}, []float64{want.step})
	}
}

// TestCompare: what is no number is worse than any, and as good as itself.
func TestCompare(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		a, b float64
		want int
	}{{1, 2, -1}, {2, 1, 1}, {1, 1, 0}, {1, nan, -1}, {nan, 1, 1}, {nan, nan, 0}} {
		if got := compare(c.a, c.b); got != c.want {
			t.Errorf("compare(%v, %v) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestLearn: candidates are put in order by objectives that differ in their last bits, and all of
// them move the distribution, the best first.
func TestLearn(t *testing.T) {
	begin := func() *Gains {
		g, err := NewGains(lockstep.KindPID, 9, 1)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	of := func(k int) float64 { return 100 + float64(k)*0x1p-40 }
	g, want := begin(), begin()
	candidates, objectives := g.candidates(), make([]float64, 9)
	var order [9]int
	for k := range objectives {
		order[4*k%9], objectives[k] = k, of(4*k%9)
	}
	var steps [][]float64
	for _, k := range order[1:] { // the first is the mean
		var y []float64
		for i, x := range candidates[k].(lockstep.Native).Gains() {
			y = append(y, (x-want.mean[i])/(want.gains[i].Width*want.step))
		}
		steps = append(steps, y)
	}
	want.adapt(steps)
	if better := g.learn(candidates, objectives); better != 0 ||
		g.History[0] != (Generation{of(0), of(0), of(4)}) {
		t.Errorf("the best is %d, %+v", better, g.History)
	}
	if !slices.Equal(g.mean, want.mean) || g.step != want.step {
		t.Errorf("it goes to %v, want %v", g.mean, want.mean)
	}
	for _, c := range []struct{ least, better int }{{1, -1}, {0, -1}, {-1, 5}, {-1, -1}, {-2, 5}} {
		for k := range objectives {
			objectives[k] = of(c.least + (k+4)%9)
		}
		if better := g.learn(g.candidates(), objectives); better != c.better {
			t.Errorf("of at least %d the better is %d, want %d", c.least, better, c.better)
		}
	}
}

// TestSeeded: each seed and each round has noise of its own, and each seed has candidates of its
// own; and the same again.
func TestSeeded(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []uint64{0, 1, 1 << 32, 1<<32 + 1, 1 << 63} {
		for round := range 3 {
			s := &aiming{Aim: &Aim{Noise: lockstep.SeededNoise, Seeds: 3, Seed: seed}}
			noise, name := fmt.Sprint(s.seeded(round)), fmt.Sprintf("round %d of %d", round, seed)
			if other, taken := seen[noise]; taken || fmt.Sprint(s.seeded(round)) != noise {
				t.Errorf("%s has the noise %s, and another time %v; so has %q", name, noise,
					s.seeded(round), other)
			}
			seen[noise] = name
		}
		g, err := NewGains(lockstep.KindPID, 8, seed)
		if err != nil {
			t.Fatal(err)
		}
		drawn, name := fmt.Sprint(g.candidates()), fmt.Sprint("gains of ", seed)
		if other, taken := seen[drawn]; taken || fmt.Sprint(g.candidates()) != drawn {
			t.Errorf("%s: %s, and another time %v; so has %s", name, drawn, g.candidates(), other)
		}
		seen[drawn] = name
	}
}

// TestManyRoutes: each candidate's objective is of its own results on all routes, and the best
// one's are kept.
func TestManyRoutes(t *testing.T) {
	g, err := NewGains(lockstep.KindPID, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewGains(lockstep.KindPID, 100_001, 1); err == nil {
		t.Error("a population of 100001")
	}
	var all []lockstep.Result
	if err := g.Next(func(candidates []lockstep.Policy) ([]lockstep.Result, error) {
		if len(candidates) != 8 {
			t.Errorf("%d candidates of a population of 8", len(candidates))
		}
		for k := range candidates {
			for route := range 3 {
				total := float64(10 + (k+3)%8 + route) // the least is candidate 5's
				all = append(all, lockstep.Result{Costs: lockstep.Costs{Total: total}})
			}
		}
		return all, nil
	}); err != nil {
		t.Fatal(err)
	}
	clear(all) // it is the sweep's
	for i, r := range g.Results {
		if r.Costs.Total != float64(10+i) {
			t.Errorf("on route %d the best costs %v", i, r.Costs.Total)
		}
	}
	if want := math.Cbrt(10 * 11 * 12); len(g.Results) != 3 ||
		math.Abs(g.History[0].Best-want) > 1e-12 {
		t.Errorf("%d results, and a best of %v, want 3 and %v", len(g.Results), g.History, want)
	}
}
