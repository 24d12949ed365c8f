package gpucheck

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/testkit"
)

var (
	model    = flag.String("model", "", "folder of the model; default the shipped one")
	products = flag.String(
		"products", driver.AnyBLAS, "who multiplies matrices on a GPU: auto, off, or the path of a cuBLAS",
	)
	results = flag.String("results", "", "file to write results to; default none")
)

// report is the file of results as it grows. Tests of this package run one after the other.
var report strings.Builder

func TestMain(m *testing.M) {
	flag.Parse()
	if *model == "" {
		*model = testkit.Model()
	}
	fmt.Fprintf(&report, "# GPU check\n\n%s\n\n", where())
	code := m.Run()
	outcome := "All checks passed."
	if code != 0 {
		outcome = "SOME CHECKS FAILED: the log beside this file says which."
	}
	fmt.Fprintf(&report, "\n%s\n", outcome)
	if *results != "" {
		if err := os.WriteFile(*results, []byte(report.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// where says what the results are of.
func where() string {
	machine := fmt.Sprintf("Built with %s for %s/%s.", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	found, why, err := driver.Probe()
	switch {
	case err != nil:
		return fmt.Sprintf(
			"**The driver of this machine does not work: %v.** The software device was used: no figure here is of a "+
				"GPU. %s",
			err, machine,
		)
	case len(found) == 0:
		return fmt.Sprintf("**No GPU: %s.** The software device was used: no figure here is of a GPU. %s", why, machine)
	case found[0].Simulated:
		return fmt.Sprintf(
			"**A fake driver, not NVIDIA's: %s.** No figure here is of a GPU. %s", found[0].Name, machine,
		)
	}
	return fmt.Sprintf("On %s, %d MiB, %s. %s", found[0].Name, found[0].MemoryBytes>>20, found[0].UUID, machine)
}

// open opens the first GPU, or the software device where there is none.
func open(t *testing.T) cuda.Device {
	t.Helper()
	return openAt(t, 0, *products)
}

// openAt opens a GPU by its number, or a software device.
func openAt(t *testing.T, index int, products string) cuda.Device {
	t.Helper()
	found, _, err := driver.Probe()
	if err != nil {
		t.Error(err)
	}
	var d cuda.Device
	if len(found) > 0 {
		d, err = driver.Open(index, products)
	} else {
		d, err = host.Open(host.Config{Index: index, MemoryBytes: 2 << 30})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// multipliers are those who can multiply matrices on the device: a value of the flag for each, by what it is called.
func multipliers(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, value := range []string{driver.NoBLAS, *products} {
		d := openAt(t, 0, value)
		if p, err := cuda.As[cuda.Describer](d); err == nil {
			name, _, _ := strings.Cut(cmp.Or(p.Properties().GEMMBackend, "the software device"), ": ")
			all[name] = value
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	return all
}

// row adds a line to the report.
func row(t *testing.T, format string, values ...any) {
	t.Helper()
	line := fmt.Sprintf(format, values...)
	t.Log(line)
	report.WriteString(line + "\n")
}
