package capacity

// Figure is a number, or the reason why it is unknown. The zero value is unknown without a reason.
type Figure struct {
	value float64
	known bool
	why   string
}

// Known returns a known figure.
func Known(value float64) Figure { return Figure{value: value, known: true} }

// Unknown returns an unknown figure with the reason.
func Unknown(why string) Figure { return Figure{why: why} }

// Value returns the number if it is known.
func (f Figure) Value() (value float64, known bool) { return f.value, f.known }

// Why returns the reason why the figure is unknown, or "" if it is known.
func (f Figure) Why() string {
	if !f.known && f.why == "" {
		return "not measured"
	}
	return f.why
}

// compute applies a function to figures. If one of them is unknown, so is the result, for the reason of
// the first one.
func compute(of func(v []float64) float64, figures ...Figure) Figure {
	values := make([]float64, len(figures))
	for i, f := range figures {
		if !f.known {
			return Unknown(f.Why())
		}
		values[i] = f.value
	}
	return Known(of(values))
}

// about adds to the reason of an unknown figure what it is a figure of.
func (f Figure) about(what string) Figure {
	if f.known {
		return f
	}
	return Unknown(what + ": " + f.Why())
}
