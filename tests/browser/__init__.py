"""Tests of the viewer's page in a browser. A package, so that its tests share a browser and a viewer."""
