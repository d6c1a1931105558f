"""Reports: pages and pictures from run folders."""
