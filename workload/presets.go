package workload

import "time"

// Preset is a Load with the statistics of a trace that is not part of the project: its rate, the CV of its gaps,
// and the quantiles of its lengths. It has nothing else in common with the trace.
type Preset struct {
	Name  string
	Trace string // with its licence
	Load  Load
}

// shares are the quantiles that the lengths of presets have.
var shares = [...]float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1}

func fitted(tokens ...float64) Lengths {
	l := Lengths{Quantiles: make([]Quantile, len(shares))}
	for i, share := range shares {
		l.Quantiles[i] = Quantile{share, tokens[i]}
	}
	return l
}

// Presets returns the loads that replace traces. docs/reference/traces.md compares their statistics.
func Presets() []Preset {
	return []Preset{
		{"azure-code-like", "Azure LLM inference 2023, code (CC-BY-4.0)", Load{
			Length: 3436 * time.Second, Rate: 2.5664, CV: 13.15,
			Prompt: fitted(3, 147, 578, 1469, 2745, 5194, 7436, 7437, 7437),
			Output: fitted(6, 7, 9, 13, 24, 55, 252, 831, 1899),
		}},
		{"mooncake-conversation-like", "Mooncake FAST25, conversation, first 30 minutes (Apache-2.0)", Load{
			Length: 1797 * time.Second, Rate: 3.182, CV: 2.923,
			Prompt:       fitted(891, 969, 2505, 7640, 16256, 28641, 91305, 121301, 123192),
			Output:       fitted(1, 24, 151, 356, 476, 609, 1105, 2000, 2000),
			Conversation: Conversation{Turns: 1.47, System: 512, Open: 2048},
		}},
		{"arena-adapters-like", "Chatbot Arena with 27 adapters, as used by S-LoRA (Apache-2.0)", Load{
			Length: 600 * time.Second, Rate: 2.4983, CV: 1.104, Adapters: Names{Name: "adapter", Count: 27, Zipf: 1.04},
			Prompt: fitted(2, 5, 13, 40, 161, 432, 902, 1018, 1021),
			Output: fitted(2, 17, 62, 211, 457, 513, 785, 977, 977),
		}},
		{"alibaba-images-like", "Alibaba cluster-trace-v2026-GenAI (research only, not to be redistributed)", Load{
			Length: 1989367 * time.Second, Rate: 0.01347, CV: 8.25, Models: Names{Name: "model", Count: 86, Zipf: 1.43},
			Diurnal: Diurnal{Depth: 1, Peak: 5*time.Hour + 34*time.Minute},
			Prompt:  fitted(1, 10, 32, 52, 65, 90, 253, 655, 1288),
			Output:  fitted(1, 30, 30, 30, 120, 240, 320, 800, 800),
		}},
	}
}
