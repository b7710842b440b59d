"""Connect-style task distribution: connectors say what work exists, and workers share its tasks out."""
