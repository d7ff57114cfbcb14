"""Rows of data sets as they lie on a disk, for whoever reads some: conversion and decontamination."""
