"""The product's own objects beside those of upstream's charts: needs the Go module proxy once, and helm."""
