package cost

import (
	"math"
	"time"
)

// Load is what requests ask of replicas, and what each of these has for them.
type Load struct {
	Prompt, Output         float64       // mean numbers of tokens; at least 1
	LongPrompt, LongOutput float64       // P99
	Cached                 float64       // share of the prompts' tokens that is found in the KV cache
	TTFT, TPOT             time.Duration // P99 within which requests are to be served; 0: not required
	Places                 int           // sequences at once
	StepTokens             int           // prompt tokens of a step, at most
	KVTokens               float64       // tokens of KV cache; 0: as many as there are places
}

const (
	spread    = 2.326 // standard deviations of the P99 of a normal distribution
	missShare = 0.01  // share of the requests that may miss a P99
	precision = 0.002 // greatest relative error of the sequences that decode
	rarely    = 1e-6  // share of the places in use, if requests hardly ever come

	// Prompts are taken from 28 points of their distribution, by standard deviations of the logarithm of their length.
	points     = 28
	firstPoint = -3.0
	pointSteps = 0.25

	// MostCapacities is the largest number of replicas for which there is a capacity. With more of them, each one
	// serves hardly more.
	MostCapacities = 32
)

// Capacities returns the rates of requests per second that 1, 2, and so on up to a number of replicas serve together
// within the SLO, if they have their devices alone; see the package comment. They are 0 if the SLO is missed at any
// rate, or if a figure is impossible.
func (s Steps) Capacities(l Load, replicas int) []float64 {
	all := make([]float64, min(max(0, replicas), MostCapacities))
	if !(l.Prompt >= 1 && l.Output >= 1 && l.Cached >= 0 && l.Cached <= 1) || l.Places < 1 || l.StepTokens < 1 {
		return all
	}
	p := newPool(s, l)
	p.replicas = 1
	low := rarely * p.places
	if !p.meets(low) {
		return all
	}
	for n, last := 1, 0; last < len(all); n, last = next(n), n {
		p.replicas = float64(n)
		high := p.places // and low is from fewer replicas, whose places cannot be used as well
		for high > (1+precision)*low {
			if middle := math.Sqrt(low * high); p.meets(middle) {
				low = middle
			} else {
				high = middle
			}
		}
		rate, before := p.replicas*p.rate(low), 0.0
		if last > 0 {
			before = all[last-1]
			rate = max(rate, before*p.replicas/float64(last))
		}
		for i := last + 1; i <= min(n, len(all)); i++ { // between those that are computed, it is nearly linear
			all[i-1] = before + float64((rate-before)*float64(i-last))/float64(n-last)
		}
	}
	return all
}

// next returns the number of replicas after another one for which the capacity is computed: 1, 2, 3, 4, 6, 8, 12, 16...
func next(n int) int {
	if n&(n-1) == 0 {
		return n + max(1, n/2)
	}
	return n / 3 * 4
}

// pool is a number of replicas with a load. Its methods take the mean number of sequences that decode on each.
type pool struct {
	Steps
	Load
	replicas  float64
	places    float64 // of each replica, for which there is KV cache
	computed  float64 // mean number of tokens of a prompt that are not found in the KV cache
	context   float64 // mean number of tokens of a sequence that decodes
	prompts   [points]prompt
	variation struct{ prompt, output float64 } // squares of the standard deviation over the mean
}

// prompt is a prompt of a length that a share of all prompts has.
type prompt struct{ tokens, share float64 }

func newPool(s Steps, l Load) *pool {
	p := &pool{Steps: s, Load: l, places: float64(l.Places), computed: l.Prompt * (1 - l.Cached)}
	if l.KVTokens > 0 {
		p.places = math.Floor(min(p.places, l.KVTokens/(l.Prompt+l.Output)))
	}
	median, sigma := lognormal(l.Prompt, l.LongPrompt)
	_, ofOutput := lognormal(l.Output, l.LongOutput)
	p.variation.prompt, p.variation.output = math.Expm1(sigma*sigma), math.Expm1(ofOutput*ofOutput)
	p.context = l.Prompt + l.Output*(1+p.variation.output)/2
	sum := 0.0
	for i := range p.prompts {
		z := firstPoint + float64(i)*pointSteps
		p.prompts[i] = prompt{median * math.Exp(sigma*z), math.Exp(-z * z / 2)}
		sum += p.prompts[i].share
	}
	for i := range p.prompts {
		p.prompts[i].share /= sum
	}
	return p
}

// lognormal returns the median of a lognormal distribution and the standard deviation of the logarithm, of that with a
// mean and a P99: ln(P99 / mean) = 2.326·σ - σ²/2. No P99 is over 15 times the mean.
func lognormal(mean, p99 float64) (median, sigma float64) {
	ratio := math.Log(max(1, p99/mean))
	sigma = spread - math.Sqrt(max(0, spread*spread-2*ratio))
	return mean * math.Exp(-sigma*sigma/2), sigma
}

// rate returns the requests per second of a replica.
func (p *pool) rate(decoding float64) float64 {
	return decoding / p.Output / p.token(p.beside(decoding), decoding) * 1e6
}

// beside returns the mean number of sequences in a step that a sequence sees: itself and the others.
func (p *pool) beside(decoding float64) float64 { return min(1+decoding, max(1, p.places)) }

// token returns the mean time between two tokens of a sequence, in microseconds, with so many sequences in a step.
// For each sequence that ends, another one starts; its prompt makes steps longer, and that time is spread over all
// steps.
func (p *pool) token(sequences, decoding float64) float64 {
	step := p.step(sequences)
	longer := p.prefill(p.computed, sequences) - float64(p.chunks(p.computed)*step)
	return step + float64(decoding/p.Output*max(0, longer))
}

// step returns the microseconds of a step without prompts.
func (p *pool) step(sequences float64) float64 {
	return p.join(sequences*p.DecodeSequenceUS, p.WeightsUS+float64(sequences*p.context*p.ContextTokenUS))
}

// prefill returns the microseconds of the steps with a prompt beside other sequences.
func (p *pool) prefill(tokens, sequences float64) float64 {
	chunks := p.chunks(tokens)
	arithmetic := float64(tokens*p.PromptTokenUS) + float64(tokens*tokens/2)*p.PromptPairUS
	return chunks * p.join(arithmetic/chunks+float64(sequences*p.DecodeSequenceUS),
		p.WeightsUS+float64(sequences*p.context*p.ContextTokenUS))
}

// chunks returns the number of steps with a prompt.
func (p *pool) chunks(tokens float64) float64 { return max(1, math.Ceil(tokens/float64(p.StepTokens))) }

// join returns the microseconds of a step with so much arithmetic and memory traffic.
func (s Steps) join(arithmetic, memory float64) float64 {
	if s.Form == Max {
		return s.FixedUS + max(arithmetic, memory)
	}
	return s.FixedUS + arithmetic + memory
}

// meets reports whether requests are served within the SLO.
func (p *pool) meets(decoding float64) bool {
	most := min(decoding+spread*math.Sqrt(decoding/p.replicas), p.places) // P99
	if !within(p.token(max(p.beside(decoding), most), decoding), p.TPOT) {
		return false
	}
	busy := p.rate(decoding) / 1e6 * p.prefill(p.computed, p.beside(decoding))
	load, places := p.replicas*(decoding+busy), p.replicas*p.places
	return load < places && (p.TTFT <= 0 || p.late(decoding, busy, load, places) <= missShare)
}

// late returns the share of requests whose first token is late if replicas spend the fraction busy of their time on
// prompts. It returns early once the result exceeds missShare, so a larger result is only a lower bound.
func (p *pool) late(decoding, busy, load, places float64) float64 {
	if busy >= 1 {
		return 1
	}
	beside := p.beside(decoding)
	step := p.token(beside, decoding)
	queued := erlangC(places, load)
	wait := load / (p.replicas * p.rate(decoding)) * 1e6 / (places - load) * max(1, (1+p.variation.output)/2)
	behind := p.prefill(p.computed, beside) * (1 + p.variation.prompt) / 2 / (1 - busy)
	late := 0.0
	for _, of := range p.prompts {
		left := float64(p.TTFT)/float64(time.Microsecond) - p.prefill(of.tokens, beside)
		missed := min(1, max(0, 1-left/step)) // since the step before ends too late
		if left = max(0, left-step/2); missed < 1 {
			waits := float64(queued*math.Exp(-left/wait)) + float64(busy*math.Exp(-left/behind))
			missed += (1 - missed) * min(1, waits)
		}
		if late += float64(of.share * missed); late > missShare {
			break
		}
	}
	return late
}

// erlangC returns the share of the requests that wait if so many places serve them in the order of their arrival.
func erlangC(places, load float64) float64 {
	// Start the recursion well below the load, where blocking is about 1 - c/load, and not at 0, to save steps. The
	// error of this estimate decays from step to step.
	c, loss := max(0, math.Floor(load-10*math.Sqrt(load))), 1.0
	if c > 0 {
		loss = 1 - c/load
	}
	for c < places {
		c++
		loss = load * loss / (c + float64(load*loss))
	}
	return loss / (1 - float64(load/places*(1-loss)))
}

// within reports whether a time in microseconds is at most the one that is required.
func within(us float64, most time.Duration) bool {
	return most <= 0 || us <= float64(most)/float64(time.Microsecond)
}
