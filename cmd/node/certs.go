package main

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"troupe/cluster/security"
)

type certsCommand struct {
	Out    string   `xor:"what" placeholder:"DIR" type:"path" help:"${certsout}"`
	Show   string   `xor:"what" placeholder:"DIR" type:"path" help:"Show the certificates in DIR."`
	Revoke string   `xor:"what" placeholder:"DIR" type:"path" help:"${certsrevoke}"`
	Hosts  []string `placeholder:"HOST" help:"${certshosts}"`
	Client bool     `help:"Create certificates for NATS clients, which have only the permissions of their NATS user."`
	Names  []string `arg:"" optional:"" name:"NAME" help:"Nodes or clients (default: this machine)."`
}

func (certsCommand) Help() string {
	return `Set one of --out, --show and --revoke.

A node accepts connections with certificates of its CA. Keep ca.key off the nodes. Give each node ca.crt and its own
NAME.crt and NAME.key.

A certificate is valid for one year. Creating one for a NAME that has one renews it for the same hosts, unless --hosts
is set. Running nodes load the new files without a restart.

To control the cluster with the nats command, use a certificate created with --client: a node's certificate also opens
the connections between nodes.

Examples:

  troupe certs --out certs --hosts 10.0.0.7 n1     node n1 at 10.0.0.7; the first call also creates the CA
  troupe certs --out certs --hosts 10.0.0.8 n2
  troupe certs --out certs --client anna           for the nats command
  troupe certs --show certs                        names, hosts and expiry
  troupe certs --revoke certs n2                   nodes no longer accept the certificate of n2`
}

// Run creates, shows or revokes certificates.
func (c certsCommand) Run(to console) error {
	if c.Show != "" {
		return c.show(to)
	}
	if c.Revoke != "" {
		return c.revoke(to)
	}
	if c.Out == "" {
		return &usageError{errors.New("missing flags: set --out, --show or --revoke; see troupe certs --help")}
	}
	if len(c.Names) == 0 {
		c.Names = []string{machineName()}
	}
	if err := c.check(); err != nil {
		return &usageError{err}
	}
	ca, made, err := security.OpenAuthority(c.Out)
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(to.out, "Created a CA: %s, and ca.key beside it, which no node needs.\n",
			filepath.Join(c.Out, "ca.crt"))
	}
	for _, name := range c.Names {
		if c.Client {
			cert, err := ca.IssueClient(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(to.out, "%s is a NATS client, valid until %s: %s.crt and .key\n", name,
				cert.NotAfter.Format(time.DateOnly), filepath.Join(c.Out, name))
			continue
		}
		cert, err := ca.Issue(name, c.hosts(name))
		if err != nil {
			return err
		}
		fmt.Fprintf(to.out, "%s is valid for %s until %s: %s.crt and .key\n", name,
			strings.Join(security.Hosts(cert), ", "), cert.NotAfter.Format(time.DateOnly), filepath.Join(c.Out, name))
	}
	if c.Client {
		fmt.Fprintf(
			to.out,
			"\nUse it:\n\n  nats --tlsca %s --tlscert %s.crt --tlskey %[2]s.key\n"+
				"  %[3]s top --tls-ca %[1]s --tls-cert %[2]s.crt --tls-key %[2]s.key\n",
			filepath.Join(c.Out, "ca.crt"),
			filepath.Join(c.Out, c.Names[0]),
			os.Args[0],
		)
		return nil
	}
	fmt.Fprintf(to.out, "\nStart a node with it:\n\n  %s up --tls-ca %s --tls-cert %s.crt --tls-key %[3]s.key\n",
		os.Args[0], filepath.Join(c.Out, "ca.crt"), filepath.Join(c.Out, c.Names[0]))
	return nil
}

func (c certsCommand) check() error {
	for _, name := range c.Names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if c.Client && len(c.Hosts) > 0 {
		return fmt.Errorf("--client and --hosts exclude each other: a client has no listen address")
	}
	for _, host := range c.Hosts {
		if err := checkHost(host); err != nil {
			return fmt.Errorf("--hosts: %w", err)
		}
	}
	return nil
}

// hosts returns the hosts of a node's certificate: its name, --hosts and loopback. It returns nil
// to renew a certificate for the hosts that it has.
func (c certsCommand) hosts(name string) []string {
	if _, err := os.Stat(filepath.Join(c.Out, name+".crt")); err == nil && len(c.Hosts) == 0 {
		return nil
	}
	return append(append([]string{name}, c.Hosts...), "localhost", "127.0.0.1", "::1")
}

// revoke adds the certificates of the names to the list of revoked ones.
func (c certsCommand) revoke(to console) error {
	if len(c.Names) == 0 || len(c.Hosts) > 0 || c.Client {
		return &usageError{
			fmt.Errorf("--revoke takes only a folder and the names to revoke"),
		}
	}
	if err := c.check(); err != nil {
		return &usageError{err}
	}
	for _, name := range c.Names {
		file, known, err := security.Revoke(c.Revoke, name)
		if err != nil {
			return err
		}
		if known {
			fmt.Fprintf(to.out, "%s is already revoked: %s\n", name, file)
			continue
		}
		fmt.Fprintf(to.out, "Revoked %s: %s\n", name, file)
	}
	fmt.Fprintf(
		to.out,
		"\nCopy the file to the --tls-revoked of every node. Running nodes load it within seconds, "+
			"and close the connections of these certificates.\n",
	)
	return nil
}

func (c certsCommand) show(to console) error {
	if len(c.Hosts)+len(c.Names) > 0 {
		return &usageError{fmt.Errorf("--show takes only a folder; to create certificates, use --out")}
	}
	all, err := security.Show(c.Show)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tUNTIL\tHOSTS")
	for _, cert := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cert.Subject.CommonName, expiry(cert),
			cmp.Or(strings.Join(security.Hosts(cert), ", "), purpose(cert)))
	}
	return table.Flush()
}

// purpose returns what a certificate without hosts is for.
func purpose(cert *x509.Certificate) string {
	if cert.IsCA {
		return ""
	}
	return "NATS client"
}

// expiry returns the last day of a certificate.
func expiry(cert *x509.Certificate) string {
	day := cert.NotAfter.Format(time.DateOnly)
	if time.Now().After(cert.NotAfter) {
		return day + " (expired)"
	}
	return day
}
