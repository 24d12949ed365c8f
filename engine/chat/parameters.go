package chat

// parameters reads the arguments of a filter, a method or a function by place or by name.
type parameters struct {
	args arguments
	what string // that is called
	used int
}

// take returns the next argument, or that of the name, or otherwise.
func (p *parameters) take(name string, otherwise any) any {
	i := p.used
	p.used++
	if i < len(p.args.all) {
		return p.args.all[i]
	}
	if v, ok := p.args.named[name]; ok {
		return v
	}
	return otherwise
}

func (p *parameters) text(name, otherwise string) string {
	s, ok := p.take(name, otherwise).(string)
	if !ok {
		fail("%s: %s must be a string", p.what, name)
	}
	return s
}

func (p *parameters) whole(name string, otherwise int) int {
	n, ok := p.take(name, otherwise).(int)
	if !ok {
		fail("%s: %s must be an integer", p.what, name)
	}
	return n
}

func (p *parameters) flag(name string) bool { return truth(p.take(name, false)) }
