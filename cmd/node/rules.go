package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/rs/zerolog"

	"troupe/cluster/reply"
	"troupe/modelfile"
)

// rule validates one value. Its error says what is wrong and shows a valid value.
type rule func(value string) error

// checker validates a struct by its `validate` tags.
type checker struct {
	validate *validator.Validate
	rules    map[string]rule
}

// newChecker returns a checker that resolves relative paths against base.
func newChecker(base string) *checker {
	c := &checker{
		validate: validator.New(validator.WithRequiredStructEnabled()),
		rules: map[string]rule{
			"name":       checkName,
			"deployment": checkDeploymentName,
			"listen":     checkListen,
			"level":      checkLevel,
			"devices": func(s string) error {
				_, err := parseDevices(s)
				return err
			},
			"simulated": func(s string) error {
				_, err := parseSimulated(s)
				return err
			},
			"model":    func(path string) error { return checkModel(absolute(base, path)) },
			"adapter":  func(path string) error { return checkAdapter(absolute(base, path)) },
			"roots":    func(dirs string) error { return checkRoots(absoluteList(base, dirs)) },
			"file":     func(path string) error { return checkFile(absolute(base, path)) },
			"urls":     checkURLs,
			"prefixes": checkPrefixes,
			"host":     checkHost,
			"hosts":    forEach(checkHost),
			"origins":  forEach(checkOrigin),
			"count":    checkCount,
			"duration": checkDuration,
			"size":     checkSize,
			"tiersize": checkTierSize,
			"share":    checkShare,
			"reserve": func(s string) error {
				_, err := parseReserve(s)
				return err
			},
			"policy":  checkPolicy,
			"restore": checkRestore,
			"networks": func(s string) error {
				_, err := parseNetworks(s)
				return err
			},
		},
	}
	c.validate.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("yaml") })
	for tag, check := range c.rules {
		valid := func(f validator.FieldLevel) bool { return check(f.Field().String()) == nil }
		if err := c.validate.RegisterValidation(tag, valid); err != nil {
			panic(fmt.Sprintf("troupe: rule %s: %v", tag, err))
		}
	}
	return c
}

// Struct implements yaml.StructValidator. The decoder finds the line of a field by
// problem.StructField.
func (c *checker) Struct(v any) error {
	err := c.validate.Struct(v)
	var fields validator.ValidationErrors
	if !errors.As(err, &fields) {
		return err
	}
	found := make(problems, len(fields))
	for i, f := range fields {
		found[i] = problem{f, c.reason(f)}
	}
	return found
}

// reason returns what is wrong with a field.
func (c *checker) reason(f validator.FieldError) string {
	if check, ok := c.rules[f.Tag()]; ok {
		return check(fmt.Sprint(f.Value())).Error()
	}
	switch f.Tag() {
	case "required":
		kind, _, _ := strings.Cut(f.StructNamespace(), ".")
		return map[string]string{"Deployment": "a deployment", "Adapter": "an adapter"}[kind] + " needs a " + f.Field()
	case "max":
		return fmt.Sprintf("%v exceeds the maximum of %s", f.Value(), f.Param())
	case "oneof":
		return fmt.Sprintf("%q is not one of %s", f.Value(), strings.Join(strings.Fields(f.Param()), ", "))
	case "unique":
		return "two deployments have the same name; give each its own"
	}
	return f.Error()
}

// problem is a field that breaks a rule.
type problem struct {
	validator.FieldError
	reason string
}

type problems []problem

func (p problems) Error() string { return p[0].reason }

// checkFlags validates the values of flags and environment. Its error names the flag.
func checkFlags(o Options) error {
	err := newChecker("").Struct(o)
	if found := (problems)(nil); errors.As(err, &found) {
		key := found[0].Field()
		return fmt.Errorf("--%s (or TROUPE_%s): %s", kebab(key), strings.ToUpper(key), found[0].reason)
	}
	return err
}

// kebab converts an option's key in the file to the spelling of its flag.
func kebab(key string) string { return strings.ReplaceAll(key, "_", "-") }

var (
	nameForm       = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	deploymentForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)
)

func checkName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf(
			"%q is not a valid name; use up to 63 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit", s)
	}
	return nil
}

// checkDeploymentName accepts capitals, which names of models have.
func checkDeploymentName(s string) error {
	if !deploymentForm.MatchString(s) {
		return fmt.Errorf(
			"%q is not a valid deployment name; use up to 63 letters, digits, '.', '_' and '-', "+
				"starting with a letter or digit",
			s,
		)
	}
	return nil
}

func checkListen(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not a listen address; write it like %s, or :8000 for every interface", s,
			defaultHTTP)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no valid port; ports are 0 to 65535", s)
	}
	return nil
}

func checkURLs(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		if _, err := parseURL(one); err != nil {
			return err
		}
	}
	return nil
}

func checkPrefixes(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		if err := reply.CheckPrefix(strings.TrimSpace(one)); err != nil {
			return err
		}
	}
	return nil
}

// checkHost accepts a host name or an IP address, without a port.
func checkHost(s string) error {
	ip := net.ParseIP(s)
	if ip == nil && hostForm.MatchString(s) || ip != nil && !ip.IsUnspecified() {
		return nil
	}
	return fmt.Errorf("%q is not a host; write a name or an IP address, without a port", s)
}

// forEach applies a rule to every element of a comma-separated list.
func forEach(check rule) rule {
	return func(list string) error {
		for _, one := range elements(list) {
			if err := check(one); err != nil {
				return err
			}
		}
		return nil
	}
}

// elements splits a comma-separated list and drops empty elements.
func elements(list string) (all []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// checkOrigin accepts the values that browsers send as Origin.
func checkOrigin(s string) error {
	err := http.NewCrossOriginProtection().AddTrustedOrigin(s)
	if err != nil || strings.ToLower(s) != s || strings.Contains(s, "*") {
		return fmt.Errorf("%q is not an origin; write it like https://chat.example or http://localhost:3000, "+
			"in lower case and without a path", s)
	}
	return nil
}

func checkCount(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("%q is not a number from 1 to %d", s, 1<<20)
	}
	return nil
}

// hostForm matches a name with at least one letter, so that it does not match IPv4 addresses.
var hostForm = regexp.MustCompile(`^[a-zA-Z0-9.-]*[a-zA-Z][a-zA-Z0-9.-]*$`)

func checkDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration; write it like 30s or 5m", s)
	}
	return nil
}

// checkFile accepts files that can be opened.
func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func checkLevel(s string) error {
	switch s {
	case zerolog.LevelDebugValue, zerolog.LevelInfoValue, zerolog.LevelWarnValue, zerolog.LevelErrorValue:
		return nil
	}
	return fmt.Errorf("%q is not a log level; use debug, info, warn or error", s)
}

// checkRoots accepts lists of folders that exist.
func checkRoots(dirs string) error {
	if len(splitList(dirs)) == 0 {
		return errors.New("no folder in the list; write it like /models,/adapters")
	}
	_, err := modelfile.NewRoots(splitList(dirs)...)
	return err
}

// checkModel accepts model folders by their config.json. Their files are checked when they are
// loaded.
func checkModel(path string) error {
	if strings.EqualFold(filepath.Ext(path), ".gguf") {
		return fmt.Errorf(
			"%s: GGUF files are not supported; use a Hugging Face model folder with safetensors files", path)
	}
	if _, err := (modelfile.Roots{}).Stat(filepath.Join(path, "config.json")); err != nil {
		return fmt.Errorf("no model in %s: it has no config.json; use a Hugging Face model folder", path)
	}
	return nil
}

// checkAdapter accepts adapter folders by their adapter_config.json.
func checkAdapter(path string) error {
	if _, err := (modelfile.Roots{}).Stat(filepath.Join(path, "adapter_config.json")); err != nil {
		return fmt.Errorf("no adapter in %s: it has no adapter_config.json; use the folder of a PEFT adapter", path)
	}
	return nil
}
