// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/terminal"
)

// output is the output format of a command.
type output struct {
	format string
	// formats are the formats that the command supports in addition to text.
	formats []string
}

func (o *output) bind(c *cobra.Command, formats ...string) {
	o.formats = formats
	c.Flags().StringVarP(&o.format, "output", "o", "", "output format: "+strings.Join(formats, ", ")+
		"; text if empty")
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was defined a few lines above
	}
}

func (o *output) validate() error {
	if o.format != "" && !slices.Contains(o.formats, o.format) {
		return fmt.Errorf("-o %s is not supported; it can be %s", o.format, strings.Join(o.formats, ", "))
	}
	return nil
}

// textOutput is implemented by every view.
type textOutput interface{ Text(report.Page) string }

// svgOutput is implemented by some views.
type svgOutput interface{ SVG() string }

// print writes a view in the requested format.
func (o *output) print(w io.Writer, v textOutput) error {
	switch o.format {
	case "json":
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return err
		}
		_, err := io.WriteString(w, terminal.Printable(b.String())) // a string of JSON may have \u009b, too
		return err
	case "yaml":
		content, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	case "svg":
		_, err := io.WriteString(w, terminal.Printable(v.(svgOutput).SVG()))
		return err
	default:
		page := pageOf(w)
		page.Wide = o.format == "wide"
		_, err := io.WriteString(w, terminal.Clean(v.Text(page)))
		return err
	}
}

// pageOf returns the page of a writer. Without a terminal it has no colours, and no edge unless COLUMNS is set. For
// NO_COLOR see https://no-color.org.
func pageOf(w io.Writer) report.Page {
	if !isTerminal(w) {
		return report.Page{Width: columns()}
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		width = columns()
	}
	return report.Page{Width: width, Colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// columns returns the value of COLUMNS, or 0 without a valid one.
func columns() int {
	width, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || width < 0 {
		return 0
	}
	return width
}
