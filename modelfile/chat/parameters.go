package chat

// parameters reads the arguments of a filter, method or function by position or name.
type parameters struct {
	args arguments
	what string // name of the callee
	used int
}

// take returns the next positional argument, else the named one, else otherwise.
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
