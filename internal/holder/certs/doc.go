// Package certs reads the TLS options that the URLs of several engines share.
package certs
